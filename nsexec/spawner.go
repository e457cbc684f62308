package nsexec

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Spawner makes children. All its clones happen on one thread that lives as
// long as the process: PR_SET_PDEATHSIG is tied to the thread that made the
// child, and Go ends threads (prctl(2), PR_SET_PDEATHSIG, CAVEAT).
//
// Starts may overlap. A start whose child clears the dumpable flag of the
// shared memory waits until no other start depends on it; see doc.go.
type Spawner struct {
	jobs     chan job    // nil: clones happen on the caller's thread
	dumpable window      // held for reading while another process opens /proc/CHILD, for writing while the flag is cleared
	old      atomic.Bool // clone3 is filtered here: clone(2) makes the children
}

type job struct {
	clone func() (pid int, err error)
	done  chan cloned
}

type cloned struct {
	pid int
	err error
}

// NewSpawner starts the thread. It is never stopped: its end would kill the
// children.
func NewSpawner() *Spawner {
	s := &Spawner{jobs: make(chan job)}
	go s.serve()
	return s
}

// NewMainSpawner is a Spawner without a thread of its own, for a program that
// starts its children from the main goroutine alone: it locks the calling
// goroutine to its thread, on which every clone then happens. Called at the
// beginning of main, that is the process's first thread, which never ends.
func NewMainSpawner() *Spawner {
	runtime.LockOSThread()
	return &Spawner{}
}

func (s *Spawner) serve() {
	runtime.LockOSThread()
	for j := range s.jobs {
		pid, err := signalsBlocked(j.clone)
		j.done <- cloned{pid, err}
	}
}

// spawn makes a child by the function clone, on the spawner's thread.
func (s *Spawner) spawn(a *arena, clone func() (int, error)) (*Process, error) {
	r := s.clone(clone)
	if r.err != nil {
		a.head.tid = 0 // nobody shares the memory
		return nil, r.err
	}
	return newProcess(r.pid, int(a.head.pidfd)), nil
}

// clone runs the function on the thread that makes the children.
func (s *Spawner) clone(clone func() (int, error)) cloned {
	if s.jobs == nil {
		pid, err := signalsBlocked(clone)
		return cloned{pid, err}
	}
	done := make(chan cloned, 1)
	s.jobs <- job{clone, done}
	return <-done
}

// signalsBlocked clones with every signal blocked, so that none can be delivered
// to the child before its program unblocks them, one step before its execve.
func signalsBlocked(clone func() (int, error)) (int, error) {
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old); err != nil {
		return 0, err
	}
	pid, err := clone()
	unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return pid, err
}
