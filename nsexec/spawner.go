package nsexec

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A Spawner makes children. All its clones happen on one thread that lives as
// long as the process: PR_SET_PDEATHSIG is tied to the thread that made the
// child, and Go ends threads (prctl(2), PR_SET_PDEATHSIG, CAVEAT).
//
// Starts may overlap. A start whose child clears the dumpable flag of the
// shared memory waits until no other start depends on it; see doc.go.
type Spawner struct {
	jobs     chan job
	dumpable sync.RWMutex // held for reading while another process opens /proc/CHILD, for writing while the flag is cleared
}

type job struct {
	a    *arena
	done chan cloned
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

func (s *Spawner) serve() {
	runtime.LockOSThread()
	for j := range s.jobs {
		pid, err := cloneBlocked(j.a)
		j.done <- cloned{pid, err}
	}
}

// clone makes the child of an arena on the spawner's thread.
func (s *Spawner) clone(a *arena) (int, error) {
	done := make(chan cloned, 1)
	s.jobs <- job{a, done}
	r := <-done
	return r.pid, r.err
}

// cloneBlocked clones with every signal blocked, so that none can be delivered
// to the child before its program unblocks them, one step before its execve.
func cloneBlocked(a *arena) (int, error) {
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old); err != nil {
		return 0, err
	}
	pid, err := a.clone()
	unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return pid, err
}
