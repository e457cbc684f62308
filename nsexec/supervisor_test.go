package nsexec

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// waitingFor is a program that ends when the other end of a pipe is closed.
func waitingFor(r *os.File) *Plan {
	plan := execPlan("/bin/sh", "-c", "read x; exit 3")
	plan.Child = append(Program{Dup3(Int(r.Fd()), Int(0), 0).Named("stdin")}, plan.Child...)
	return plan
}

// 2,000 children wait at once, started by four goroutines while their ends are
// taken by one, which is all that the supervisor needs.
func TestSupervisor(t *testing.T) {
	defer leaks(t)()
	const children = 2000
	s, sup := NewSpawner(), newSupervisor(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := runtime.NumGoroutine()
	seen := make(map[any]bool)
	started := make(chan error, 4)
	for g := range 4 {
		go func() { started <- startMany(t, s, sup, r, g*children/4, children/4) }()
	}
	for range 4 {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	goroutines := runtime.NumGoroutine() - before
	w.Close()
	for range children {
		e, err := sup.Next(t.Context())
		if err != nil || e.Err != nil || e.Status.Code != 3 || seen[e.Token] {
			t.Fatalf("%+v, %v", e, err)
		}
		seen[e.Token] = true
		e.Process.Close()
	}
	if goroutines > 8 {
		t.Errorf("%d goroutines for %d children", goroutines, children)
	}
}

func startMany(t *testing.T, s *Spawner, sup *Supervisor, r *os.File, first, n int) error {
	for i := range n {
		p, _, err := s.Start(t.Context(), waitingFor(r))
		if err == nil {
			err = sup.Watch(p, first+i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func newSupervisor(t *testing.T) *Supervisor {
	t.Helper()
	sup, err := NewSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sup.Close() })
	return sup
}

// Ends are taken while others start; the Process is closed before its end.
func TestSupervisorConcurrent(t *testing.T) {
	s, sup := NewSpawner(), newSupervisor(t)
	const children = 200
	go func() {
		for i := range children {
			p, _, err := s.Start(bg, execPlan("/bin/true"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := sup.Watch(p, i); err != nil {
				t.Error(err)
			}
			p.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range children {
		if e, err := sup.Next(ctx); err != nil || e.Err != nil {
			t.Fatal(e, err)
		}
	}
}

func TestSupervisorEnds(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	sup, err := NewSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, s, execPlan("/bin/sleep", "1000"))
	if err := sup.Watch(p, nil); err != nil {
		t.Fatal(err)
	}
	if err := sup.Watch(p, nil); !errors.Is(err, unix.EEXIST) {
		t.Errorf("watched twice: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := sup.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { sup.Close() })
	if _, err := sup.Next(t.Context()); err != ErrSupervisorClosed {
		t.Errorf("closed while waiting: %v", err)
	}
	if err := sup.Watch(p, nil); err != ErrSupervisorClosed {
		t.Errorf("Watch after Close: %v", err)
	}
	p.Signal(unix.SIGKILL)
	if status, err := p.Wait(); status.Signal != unix.SIGKILL || err != nil {
		t.Error(status, err)
	}
	p.Close()
	sup.Close()
}

// A process that somebody else reaped is reported, with ErrDone.
func TestSupervisorStolen(t *testing.T) {
	defer leaks(t)()
	sup, err := NewSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	defer sup.Close()
	p := start(t, NewSpawner(), execPlan("/bin/true"))
	defer p.Close()
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := sup.Watch(p, "token"); err != nil {
		t.Fatal(err)
	}
	if e, err := sup.Next(t.Context()); err != nil || e.Err != ErrDone || e.Token != "token" {
		t.Error(e, err)
	}
}
