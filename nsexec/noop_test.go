package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func newNoops(t testing.TB, private bool) *Noops {
	t.Helper()
	n, err := NewNoops(unix.CLONE_NEWUSER, private)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A child that does nothing holds a namespace of its own, keeps no fd and no signal of ours, and ends when told.
func TestNoop(t *testing.T) {
	for _, private := range []bool{false, true} {
		t.Run(fmt.Sprint("private=", private), func(t *testing.T) {
			defer leaks(t)()
			n := newNoops(t, private)
			defer n.Close()
			if n.Note() != "" {
				missing(t, n.Note())
			}
			c, err := n.Start()
			if err != nil {
				t.Fatal(err)
			}
			own, _ := os.Readlink("/proc/self/ns/user")
			if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", c.PID)); err != nil || ns == own {
				t.Errorf("its namespace: %s, %v", ns, err)
			}
			status := readFile(fmt.Sprintf("/proc/%d/status", c.PID))
			// KILL and STOP, bits 8 and 18, can't be blocked.
			if field(status, "SigBlk") != "fffffffffffbfeff" || strings.Trim(field(status, "SigCgt"), "0") != "" {
				t.Errorf("signals could reach it:\n%s", status)
			}
			if err := c.Kill(); err != nil {
				t.Error(err)
			}
			if err := c.Reap(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Children made and ended from many goroutines, their memory reused.
func TestNoopsAtOnce(t *testing.T) {
	defer leaks(t)()
	n := newNoops(t, false)
	defer n.Close()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 200 {
				c, err := n.Start()
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(c.Kill(), c.Reap(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A context that has ended doesn't keep a dead child from being reaped, and one that lives isn't waited for.
func TestNoopContext(t *testing.T) {
	defer leaks(t)()
	n := newNoops(t, false)
	defer n.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := n.Start()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reap(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a child that lives: %v", err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	pollIn(c.FD(), 10000)
	if err := c.Reap(ended); err != nil {
		t.Errorf("a child that has ended: %v", err)
	}
}

// The copy can't be read by who is where it goes, and what it opens is ours.
func TestRunPrivate(t *testing.T) {
	defer leaks(t)()
	n := newNoops(t, false)
	defer n.Close()
	c, err := n.Start()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", c.PID), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, c.Kill(), c.Reap(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ns)
	program := Program{
		Openat(AtCWD(), "/proc/self/uid_map", unix.O_RDWR, 0).Named("is it dumpable?").MustFail(unix.EACCES),
		Setns(Slot("ns"), unix.CLONE_NEWUSER).Named("enter"),
		Openat(AtCWD(), "/proc/self/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0).Named("open"),
	}
	if os.Geteuid() == 0 {
		program = program[1:] // root may write what belongs to root
	}
	results, err := RunPrivate(t.Context(), program, map[string]int{"ns": ns})
	if err != nil {
		t.Fatal(err)
	}
	fd := int(results[len(results)-1].Ret)
	defer unix.Close(fd)
	var entered, wanted unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &entered), unix.Fstat(ns, &wanted)); err != nil || entered.Ino != wanted.Ino {
		t.Errorf("it was in user:[%d], not in user:[%d]: %v", entered.Ino, wanted.Ino, err)
	}
	if flag, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); flag != 1 || err != nil {
		t.Errorf("our own dumpable flag is %d, %v", flag, err)
	}
	var step *StepError
	if _, err := RunPrivate(t.Context(), Program{Fchdir(Int(-1)).Named("nowhere")}, nil); !errors.As(err, &step) || step.Name != "nowhere" || step.Errno != unix.EBADF {
		t.Errorf("a step that fails: %v", err)
	}
	if _, err := RunPrivate(t.Context(), Program{Fchdir(Slot("none"))}, nil); !errors.As(err, new(*InvalidError)) {
		t.Errorf("a slot that nobody fills: %v", err)
	}
}

// Design hazard: a child that shares our memory must not enter a namespace that others are in.
func TestSharedMemoryNeverJoins(t *testing.T) {
	plan := execPlan("/bin/true")
	plan.Child = append(Program{Setns(Int(3), unix.CLONE_NEWUSER).Named("join")}, plan.Child...)
	var invalid *InvalidError
	if err := plan.Validate(); !errors.As(err, &invalid) || invalid.Step != "join" {
		t.Errorf("%v", err)
	}
}

// Programs beside a child: all at once, every failure told.
func TestRunAll(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	if notes, err := s.RunAll(t.Context(), []Command{{"/bin/true", []string{"true"}}, {"/bin/true", []string{"true"}}}); err != nil || notes != nil {
		t.Errorf("%q, %v", notes, err)
	}
	_, err := s.RunAll(t.Context(), []Command{{"/bin/sh", []string{"sh", "-c", "echo one >&2; exit 1"}}, {"/bin/sh", []string{"sh", "-c", "echo two >&2; exit 2"}}})
	var failed *ProgramError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") {
		t.Errorf("%v", err)
	}
	if _, err := s.RunAll(t.Context(), []Command{{"/bin/true", []string{"true"}}, {"/nonexistent", []string{"none"}}}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
}
