package nsexec

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// golang/go#67926: every Wait but the first gives the same error, at once.
func TestWaitTwice(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	p := start(t, s, execPlan("/bin/sh", "-c", "exit 4"))
	if status, err := p.Wait(); err != nil || status.ExitCode() != 4 || p.Weak() {
		t.Error(status, err)
	}
	wantDone := func(when string) {
		_, wait := p.Wait()
		_, try := p.TryWait()
		if kill := p.Signal(unix.SIGTERM); wait != ErrDone || try != ErrDone || kill != ErrDone {
			t.Errorf("%s: %v, %v, %v", when, wait, try, kill)
		}
	}
	wantDone("again")
	p.Close()
	p.Close()
	wantDone("closed")

	p = start(t, s, execPlan("/bin/true"))
	if pid, err := waitAny(0); pid != p.PID || err != nil {
		t.Fatal(pid, err)
	}
	wantDone("reaped by somebody else")
	p.Close()
}

func TestWaitClosed(t *testing.T) {
	defer leaks(t)()
	p := start(t, NewSpawner(), execPlan("/bin/true"))
	p.Close()
	if _, err := p.Wait(); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrClosed) || p.FD() != -1 {
		t.Error(err)
	}
	waitAny(0)
}

// Several Waits at once: one gets the status. Close meanwhile disturbs none.
func TestWaitConcurrently(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	for range 20 {
		p := start(t, s, execPlan("/bin/sleep", "0.01"))
		var mu sync.Mutex
		statuses := 0
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := p.Wait()
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					statuses++
				} else if err != ErrDone {
					t.Error(err)
				}
			})
		}
		if p.Weak(); p.FD() < 0 {
			t.Error("closed")
		}
		wg.Wait()
		if p.Close(); statuses != 1 {
			t.Errorf("%d got the status", statuses)
		}
	}
}

// netblue30/firejail#4474: an end by a signal is told as one.
func TestExitBySignal(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	for script, want := range map[string]ExitStatus{
		"kill -ABRT $$": {Signal: unix.SIGABRT}, "kill -KILL $$": {Signal: unix.SIGKILL}, "kill -TERM $$": {Signal: unix.SIGTERM},
		"exit 125": {Code: 125}, "exit 255": {Code: 255}, "true": {},
	} {
		got := run(t, s, execPlan("/bin/sh", "-c", "ulimit -c 0; "+script))
		if got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
		if want.Signal != 0 && (got.ExitCode() != 128+int(want.Signal) || got.String() != "killed by "+unix.SignalName(want.Signal)) {
			t.Errorf("%s: %d, %s", script, got.ExitCode(), got)
		}
	}
}

// podman-container-tools/podman#18457: a stop that races with the natural end.
func TestSignalRacesEnd(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	concurrently(t, 2, 250, func(g, i int) error {
		p, _, err := s.Start(bg, execPlan("/bin/true"))
		if err != nil {
			return err
		}
		signalled := make(chan error)
		go func() {
			time.Sleep(time.Duration(i%20) * 100 * time.Microsecond)
			signalled <- p.Signal(unix.SIGTERM)
		}()
		_, err = p.Wait()
		p.Close()
		return errors.Join(err, except(<-signalled, ErrDone))
	})
}

func except(err, allowed error) error {
	if err == allowed {
		return nil
	}
	return err
}

// containers/bubblewrap#146: a child inherited over execve isn't ours.
func TestInheritedChild(t *testing.T) {
	again(t, "TestInnerInherited", []string{"WOLFFIA_TEST_INHERITED=1"}, "/bin/sh", "-c", `sleep 0.3 & exec "$0" "$@"`)
}

func TestInnerInherited(t *testing.T) {
	inner(t)
	if children() == "" {
		t.Fatal("no child was inherited")
	}
	begin := time.Now()
	if status := run(t, NewSpawner(), execPlan("/bin/sh", "-c", "sleep 0.6; exit 7")); status.Code != 7 || time.Since(begin) < 600*time.Millisecond {
		t.Errorf("%v after %v", status, time.Since(begin))
	}
	if pid, err := waitAny(unix.WNOHANG); pid == 0 || err != nil {
		t.Errorf("the inherited child was reaped: %d, %v", pid, err)
	}
}

// namespaceSets are all subsets of the namespaces.
func namespaceSets() []uint64 {
	all := []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWNET}
	sets := []uint64{0}
	for _, flag := range all {
		for _, set := range sets[:len(sets):len(sets)] {
			sets = append(sets, set|flag)
		}
	}
	return sets
}

// golang/go#29789: no set of namespaces makes a start hang, with maps or not,
// and a cancelled one is killed and reaped.
func TestEveryNamespaceSet(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	for _, flags := range namespaceSets() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := startIn(ctx, s, namespacePlan(flags))
		cancel()
		if permitted := flags&unix.CLONE_NEWUSER != 0 || flags == 0 || os.Geteuid() == 0; permitted && err != nil || !permitted && !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", CloneFlags.Text(flags), err)
		}
		wantCancelled(t, s, flags)
	}
}

func namespacePlan(flags uint64) *Plan {
	plan := execPlan("/bin/true")
	plan.Host[0].Flags = flags
	if flags&unix.CLONE_NEWUSER != 0 {
		host := realHost()
		plan.Host = append(append([]HostStep{host[0], plan.Host[0]}, host[3:6]...), host[7], plan.Host[1])
		plan.Child = append(Program{
			Dup3(Slot(Lifeline), Int(3), unix.O_CLOEXEC).Named("keep the lifeline").Allow("test", unix.EINVAL),
			CloseRange(4, ^uint32(0), 0).Named("close all else"), WaitGate(Int(3), GateMaps)}, plan.Child...)
	}
	return plan
}

func startIn(ctx context.Context, s *Spawner, plan *Plan) error {
	p, _, err := s.Start(ctx, plan)
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Wait()
	return err
}

// wantCancelled starts a child that never comes to its end, and cancels.
func wantCancelled(t *testing.T, s *Spawner, flags uint64) {
	t.Helper()
	plan := namespacePlan(flags)
	plan.Child = append(Program{nanosleep(time.Hour)}, plan.Child...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := startIn(ctx, s, plan)
	if took := time.Since(begin); took > time.Second || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, unix.EPERM) {
		t.Errorf("%s: %v after %v", CloneFlags.Text(flags), err, took)
	}
}
