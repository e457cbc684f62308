package nsexec

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// The way round an outer seccomp filter that forbids clone3(2), as Docker's
// default did (clone3's flags lie in memory, where a filter can't look).
// clone(2) has every flag that we need but CLONE_CLEAR_SIGHAND: the child then
// resets each handler itself, all signals being blocked meanwhile.

// birth is what a child is made from.
type birth struct {
	program Program
	inputs  map[string]uint64 // slots that the host lane filled
	flags   uint64            // clone flags, beside forcedCloneFlags
	into    bool              // be born in cgroup, the fd of a folder
	cgroup  int
	fault   *Fault // injected, or nil
}

// make loads a program and makes the child that executes it.
func (s *Spawner) make(b birth) (*arena, *Process, error) {
	if !s.old.Load() {
		a, proc, err := s.makeBy((*arena).clone, b.intoCgroup())
		if (err != unix.ENOSYS && err != unix.EPERM) || clone3Exists() {
			return a, proc, err
		}
		s.old.Store(true)
	}
	if beyond := b.flags &^ clone2Flags; beyond != 0 {
		return nil, nil, &FilteredError{Call: "clone3(2) with " + CloneFlags.Text(beyond) + ", which clone(2) lacks", Errno: unix.ENOSYS}
	}
	a, proc, err := s.makeBy((*arena).clone2, b, resetHandlers(handledSignals())...)
	if errno, ok := err.(unix.Errno); ok {
		err = filtered("clone(2)", errno)
	}
	return a, proc, err
}

// intoCgroup is the birth by clone3(2), into a cgroup where there is one (Linux 5.7).
func (b birth) intoCgroup() birth {
	if b.into {
		b.flags |= unix.CLONE_INTO_CGROUP
	}
	return b
}

// clone2Flags are the flags that fit into clone(2): its low byte is exit_signal.
const clone2Flags = 0xffffff00

func (s *Spawner) makeBy(clone func(*arena) (int, error), b birth, before ...Step) (*arena, *Process, error) {
	a, err := load(&s.memories, b.program, b.inputs, before...)
	if err != nil {
		return nil, nil, err
	}
	if b.fault != nil && b.fault.Lane == LaneChild {
		a.inject(b.fault.Step, b.fault.Errno)
	}
	a.prepare(b.flags, b.cgroup)
	proc, err := s.spawn(a, func() (int, error) { return clone(a) })
	if err != nil {
		a.free()
		return nil, nil, err
	}
	return a, proc, nil
}

// resetHandlers is what CLONE_CLEAR_SIGHAND does: what is handled gets its
// default back, what is ignored stays so.
func resetHandlers(signals []unix.Signal) Program {
	var p Program
	for _, sig := range signals {
		s := call(unix.SYS_RT_SIGACTION, Int(int(sig)), Words(literal("SIG_DFL"), 0, 0, 0, 0), Null(), Int(8))
		s.Man = "sigaction(2)"
		p = append(p, s.Named("default action of signal ", strconv.Itoa(int(sig))))
	}
	return p
}

// fallbackNote is what the report says when clone(2) made the child.
func fallbackNote(a *arena) string {
	return fmt.Sprintf("clone3(2) is forbidden here by a seccomp filter above us: the child was made by clone(2), without CLONE_CLEAR_SIGHAND; "+
		"it first made %d rt_sigaction(2) calls that aren't listed, which reset the handlers of this program", a.skip)
}
