package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// concurrently runs f n times in each of some goroutines; the first error ends it.
func concurrently(t *testing.T, goroutines, n int, f func(g, i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range n {
				if err := f(g, i); err != nil {
					t.Errorf("goroutine %d, run %d: %v", g, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func startAndWait(s *Spawner, plan *Plan) error {
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	defer cancel()
	p, _, err := s.Start(ctx, plan)
	if err != nil {
		return err
	}
	defer p.Close()
	status, err := p.Wait()
	if err == nil && status.ExitCode() != 0 {
		err = errors.New(status.String())
	}
	return err
}

// Hazard: a core before execve would hold our memory.
func TestCoreLimit(t *testing.T) {
	defer leaks(t)()
	var had unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_CORE, &had)
	defer unix.Setrlimit(unix.RLIMIT_CORE, &had)
	soft := min(had.Max, 4096)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: soft, Max: had.Max}); err != nil || soft == 0 {
		missing(t, "a hard RLIMIT_CORE above 0")
	}
	file := filepath.Join(t.TempDir(), "limits")
	plan := realPlan("/bin/cat", "/proc/self/limits")
	// While the child waits at the gate, a program reads its limits.
	plan.Host[2].Argv = []string{"sh", "-c", "sleep 0.1; cat /proc/$0/limits >" + file, ChildPID}
	text, _ := output(t, NewSpawner(), plan)
	if core := limit(readFile(file), "Max core file size"); core[0] != "0" {
		t.Errorf("before execve %v", core)
	}
	if core := limit(text, "Max core file size"); core[0] != fmt.Sprint(soft) {
		t.Errorf("after execve %v, want %d", core, soft)
	}
}

// limit finds a line of /proc/PID/limits: soft, hard.
func limit(text, name string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields(rest)
		}
	}
	return []string{"no " + name, ""}
}

// Hazard: Go raises the soft RLIMIT_NOFILE; a container must get the original.
func TestNofile(t *testing.T) {
	again(t, "TestInnerNofile", nil, "/bin/sh", "-c", `ulimit -Sn 512; exec "$0" "$@"`)
}

func TestInnerNofile(t *testing.T) {
	inner(t)
	defer leaks(t)()
	soft, hard, err := OriginalNofile()
	if err != nil || soft != 512 {
		t.Fatal(soft, hard, err)
	}
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &now); now.Cur < hard-1 {
		t.Errorf("ours is %d of %d now", now.Cur, hard)
	}
	plan := execPlan("/bin/cat", "/proc/self/limits")
	plan.Child = slices.Insert(plan.Child, 1, Setrlimit("RLIMIT_NOFILE", unix.RLIMIT_NOFILE, soft, hard))
	text, _ := output(t, NewSpawner(), plan)
	if files := limit(text, "Max open files"); files[0] != "512" {
		t.Errorf("the child has %v", files)
	}
}

// Hazard: signals. Nothing is blocked or handled in the program; what we ignore
// stays ignored, as over any execve.
func TestInnerSignals(t *testing.T) {
	inner(t)
	defer leaks(t)()
	signal.Ignore(unix.SIGUSR2)
	text, _ := output(t, NewSpawner(), realPlan("/bin/cat", "/proc/self/status"))
	own := readFile("/proc/self/status")
	none := strings.Repeat("0", 16)
	for name, want := range map[string]string{"SigBlk": none, "ShdPnd": none, "SigCgt": none, "SigIgn": field(own, "SigIgn")} {
		if got := field(text, name); got != want {
			t.Errorf("%s %s, want %s", name, got, want)
		}
	}
	if field(own, "SigIgn") == none {
		t.Error("SIGUSR2 isn't ignored here: nothing was tested")
	}
}

// Hazard: signals that arrive while children are made never run a Go handler in one.
func TestSignalsDuringStart(t *testing.T) {
	defer leaks(t)()
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGUSR1)
	defer signal.Stop(got)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-got:
			default:
				unix.Kill(os.Getpid(), unix.SIGUSR1) // this process, not a child
			}
		}
	}()
	s := NewSpawner()
	concurrently(t, 2, 50, func(g, i int) error { return startAndWait(s, realPlan("/bin/true")) })
	close(stop)
}

// Nothing is open in the program but 0, 1, 2; the fourth is ls's own.
func TestNoFDLeaks(t *testing.T) {
	defer leaks(t)()
	r, w, err := os.Pipe() // an fd without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	unix.FcntlInt(r.Fd(), unix.F_SETFD, 0)
	for _, plan := range []*Plan{realPlan("/bin/ls", "/proc/self/fd"), execPlan("/bin/ls", "/proc/self/fd")} {
		if text, _ := output(t, NewSpawner(), plan); text != "0\n1\n2\n3\n" {
			t.Errorf("open inside: %q", text)
		}
	}
}

// A launcher that closed its stdin: no fd of a start takes its place.
func TestStdinClosed(t *testing.T) { again(t, "TestInnerStdinClosed", nil) }

func TestInnerStdinClosed(t *testing.T) {
	inner(t)
	unix.Close(0)
	s := NewSpawner()
	if text, _ := output(t, s, realPlan("/bin/ls", "/proc/self/fd")); text != "0\n1\n2\n" { // 0 is ls's own
		t.Errorf("open inside: %q", text)
	}
	plan := realPlan("/bin/true")
	plan.Host[2].Argv = []string{"sh", "-c", "test -c /proc/self/fd/0 && test -p /proc/self/fd/2"}
	if err := startAndWait(s, plan); err != nil {
		t.Error(err)
	}
}

// Hazard: PR_SET_PDEATHSIG follows the thread. The threads that ask for these
// children end; the children don't.
func TestThreadsEnd(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	children := make(chan *Process, 30)
	for range cap(children) {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			p, _, err := s.Start(bg, execPlan("/bin/sleep", "1000"))
			if err != nil {
				t.Error(err)
			}
			children <- p
		}()
	}
	var all []*Process
	for range cap(children) {
		all = append(all, <-children)
	}
	time.Sleep(100 * time.Millisecond)
	for _, p := range all {
		if _, err := p.TryWait(); err != unix.EAGAIN {
			t.Errorf("a child ended with the thread that asked for it: %v", err)
		}
		p.Signal(unix.SIGKILL)
		p.Wait()
		p.Close()
	}
}

// containerd/containerd#9218: a wait4(-1) elsewhere takes no child that hasn't
// executed its program: its exit signal is 0.
func TestReaperStealsNothing(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
		}
	}()
	plan := &Plan{Host: execPlan("").Host, Child: Program{nanosleep(time.Millisecond)}}
	concurrently(t, 2, 100, func(g, i int) error { return startAndWait(s, plan) })
	failing := execPlan("/nonexistent")
	for range 50 {
		if _, _, err := s.Start(bg, failing); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%v", err)
		}
	}
	// One that executed may be stolen: then its Wait says so, at once.
	for range 20 {
		if err := startAndWait(s, execPlan("/bin/true")); err != nil && err != ErrDone {
			t.Error(err)
		}
	}
	close(stop)
	<-stopped
}

// In processes of their own, as signal.Ignore can't be undone.
func TestSignalsIgnored(t *testing.T) {
	again(t, "TestInnerSIGCHLDIgnored", nil)
	again(t, "TestInnerSignals", nil)
}

func TestInnerSIGCHLDIgnored(t *testing.T) {
	inner(t)
	defer leaks(t)()
	signal.Ignore(unix.SIGCHLD)
	s := NewSpawner()
	for range 10 {
		if err := startAndWait(s, realPlan("/bin/true")); err != nil && err != ErrDone {
			t.Error(err)
		}
		if _, _, err := s.Start(bg, execPlan("/nonexistent")); !errors.Is(err, unix.ENOENT) {
			t.Error(err)
		}
		plan := realPlan("/bin/true")
		plan.Host[2].Argv = []string{"sh", "-c", "echo refused >&2; exit 3"}
		if _, _, err := s.Start(bg, plan); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a failed program whose status was lost: %v", err)
		}
	}
}

// Arena memory under garbage collection, from six goroutines.
func TestGarbageCollection(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var keep [][]byte
		for {
			select {
			case <-stop:
				return
			default:
				keep = append(keep[max(0, len(keep)-50):], make([]byte, 1<<16))
				runtime.GC()
			}
		}
	}()
	before := arenas()
	concurrently(t, 6, 100, func(g, i int) error { return startAndWait(s, realPlan("/bin/true")) })
	close(stop)
	<-stopped
	if after := arenas(); after > before+20 {
		t.Errorf("%d mappings before, %d after", before, after)
	}
}

func arenas() int { return strings.Count(readFile("/proc/self/maps"), "\n") }
