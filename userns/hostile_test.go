package userns

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// openings is how often a test opens beside something hostile.
const openings = 100

func openOften(t *testing.T, o *Opener, n int) {
	t.Helper()
	m := prepare(t, o)
	for range n {
		fd, err := o.OpenRaw(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			wantMaps(t, fd, m.UID, m.GID)
		}
		closeFD(&fd)
	}
}

// containerd/containerd#9218: a reaper of all children in the same process, and a process that isn't ours to signal.
func TestReaper(t *testing.T) {
	again(t, "TestInnerReaper")
	again(t, "TestInnerReaper", "WOLFFIA_TEST_WALL=1")
}

func TestInnerReaper(t *testing.T) {
	inner(t)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	options := unix.WNOHANG
	if os.Getenv("WOLFFIA_TEST_WALL") != "" {
		options |= unix.WALL
	}
	stop := make(chan bool)
	var reaping sync.WaitGroup
	reaping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Wait4(-1, nil, options, nil)
				runtime.Gosched()
			}
		}
	})
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, openings)
		o.Close()
	}
	close(stop)
	reaping.Wait()
	if err := bystander.Process.Kill(); err != nil {
		t.Errorf("the bystander was signalled: %v", err)
	}
	bystander.Wait()
	leaks(t)()
}

// A process that ignores SIGCHLD, or whose orphans come to it.
func TestOddParents(t *testing.T) {
	again(t, "TestInnerIgnoresSIGCHLD")
	again(t, "TestInnerSubreaper")
}

func TestInnerIgnoresSIGCHLD(t *testing.T) {
	inner(t)
	defer leaks(t)()
	signal.Ignore(unix.SIGCHLD)
	openByAll(t)
}

func TestInnerSubreaper(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	openByAll(t)
}

// A terminal's signals go to the whole process group, and any of them stops a traced child.
func TestSignalledGroup(t *testing.T) {
	again(t, "TestInnerSignalsItsGroup")
}

func TestInnerSignalsItsGroup(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Setpgid(0, 0); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var signalling sync.WaitGroup
	for range 2 {
		signalling.Go(func() {
			for !stop.Load() {
				unix.Kill(0, unix.SIGWINCH)
			}
		})
	}
	hangs := time.AfterFunc(30*time.Second, func() { panic("a child stands stopped before its execve") })
	openByAll(t)
	o := newOpener(t, Using(Ptrace))
	openOften(t, o, 800)
	o.Close()
	hangs.Stop()
	stop.Store(true)
	signalling.Wait()
}

func openByAll(t *testing.T) {
	t.Helper()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 30)
		openOften(t, o, 1)
		o.Close()
	}
}

// Not dumpable, an ordinary user is root's in /proc: the error says so, and which mechanism works.
func TestUndumpable(t *testing.T) {
	again(t, "TestInnerUndumpable")
}

func TestInnerUndumpable(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []Mechanism{VM, Fork} {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		_, err := o.OpenRaw(t.Context(), prepare(t, o))
		if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "not dumpable") || !strings.Contains(err.Error(), "mechanism ptrace") {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
	o := newOpener(t, Using(Ptrace))
	openOften(t, o, 1)
	o.Close()
}

// A child that was killed and reaped behind our back gives no fd of whatever has its number now.
func TestVanished(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		func() {
			defer leaks(t)()
			o := newOpener(t, Using(mechanism))
			defer o.Close()
			use, err := o.mechanism()
			if err != nil {
				t.Fatal(err)
			}
			x, m := newOpening(), prepare(t, o)
			kill := slices.IndexFunc(use.direct.blank, func(a act) bool { return a.op == actKill })
			if err := o.run(t.Context(), use, use.direct.blank[:kill], 0, use.direct.len(), &x, m); err != nil {
				t.Fatal(err)
			}
			unix.Kill(x.child.id(), unix.SIGKILL) // ours, just made
			if _, err := unix.Wait4(x.child.id(), nil, unix.WALL, nil); err != nil {
				t.Fatal(err)
			}
			err = o.run(t.Context(), use, use.direct.blank[kill:], kill, use.direct.len(), &x, m)
			var vanished *VanishedError
			if !errors.As(err, &vanished) || !errors.Is(err, nsexec.ErrDone) {
				t.Errorf("%s: %v", mechanism, err)
			}
			x.abandon()
		}()
	}
}
