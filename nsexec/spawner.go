package nsexec

import (
	"runtime"
	"sync/atomic"
)

// A Spawner makes children. All its clones happen on one thread that lives as
// long as the process: PR_SET_PDEATHSIG is tied to the thread that made the
// child, and Go ends threads (prctl(2), PR_SET_PDEATHSIG, CAVEAT).
//
// Starts may overlap. A start whose child clears the dumpable flag of the
// shared memory waits until no other start depends on it; see doc.go.
type Spawner struct {
	jobs     chan job // nil: clones happen on the caller's thread
	dumpable window   // held for reading while another process opens /proc/CHILD, for writing while the flag is cleared
	memories memories
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

// NewMainSpawner is a Spawner without a thread of its own: clones happen on
// whatever thread the caller is on. It is for a small program in which no
// goroutine ends while it is locked to its thread (runtime.LockOSThread), which
// is the only way in which Go ends a thread. It saves two threads.
func NewMainSpawner() *Spawner { return &Spawner{} }

func (s *Spawner) serve() {
	runtime.LockOSThread()
	for j := range s.jobs {
		pid, err := j.clone()
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
		pid, err := clone()
		return cloned{pid, err}
	}
	done := make(chan cloned, 1)
	s.jobs <- job{clone, done}
	return <-done
}
