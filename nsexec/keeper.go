package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// keeper ends a container whose launcher was killed. PR_SET_PDEATHSIG does that
// as long as the container's program keeps its credentials: a change of ids
// clears it (gosu, su, a daemon that drops root). The keeper is a child of the
// same kind, in no namespace, that waits for end of file on the lifeline and
// then sends SIGKILL through the pidfd. It has a process group of its own, so that
// what kills the launcher's doesn't kill it too.
type keeper struct {
	proc     *Process
	arena    *arena
	lifeline int // the pipe's write end: the keeper acts when it closes
	once     sync.Once
}

// keeperSteps hold the lifeline and the pidfd as fds 4 and 3, and nothing else:
// no stdin, stdout or stderr either, whose other ends would wait for us.
func keeperSteps() Program {
	return Program{
		Prctl("PR_SET_NAME", unix.PR_SET_NAME, Str("wolffia-keeper")).Named("a name for ps(1)"),
		call(unix.SYS_FCNTL, Slot(Lifeline), Const("F_DUPFD_CLOEXEC", unix.F_DUPFD_CLOEXEC), Int(8)).As("line").Named("keep the lifeline clear of 3 and 4"),
		Dup3(Slot("pidfd"), Int(3), unix.O_CLOEXEC).Named("the container").Allow("it has this number already", unix.EINVAL),
		Dup3(Slot("line"), Int(4), unix.O_CLOEXEC).Named("the lifeline"),
		CloseRange(0, 2, 0).Named("close stdio"),
		CloseRange(5, ^uint32(0), 0).Named("close all else"),
		call(unix.SYS_READ, Int(4), Bytes("gate", make([]byte, 8)), Int(1)).Named("wait for the launcher's death").Expect(0),
		call(unix.SYS_PIDFD_SEND_SIGNAL, Int(3), Const("SIGKILL", uint64(unix.SIGKILL)), Null(), Int(0)).Named("kill the container").
			Allow("it has ended", unix.ESRCH),
	}
}

// keep makes the keeper. The gates' bytes and the keeper can't share a pipe: it
// gets one of its own.
func (l *launch) keep() (int64, error) {
	fd, ok := l.child.handle.acquire()
	if !ok {
		return 0, ErrDone
	}
	defer l.child.handle.release()
	read, write, err := highPipe()
	if err != nil {
		return 0, err
	}
	defer unix.Close(read)
	a, proc, err := l.spawner.make(birth{program: keeperSteps(), inputs: map[string]uint64{Lifeline: uint64(read), "pidfd": uint64(fd)}})
	if err != nil {
		unix.Close(write)
		return 0, err
	}
	k := &keeper{proc: proc, arena: a, lifeline: write}
	// By us and not by a step of its own: it is in force when the start goes on.
	// The number is our child's, which nobody has reaped.
	if err := unix.Setpgid(proc.PID, 0); err != nil {
		k.end()
		return 0, os.NewSyscallError("setpgid", err)
	}
	l.child.keeper = k
	return int64(proc.PID), nil
}

// end dismisses the keeper and leaves the container alone.
func (k *keeper) end() {
	if k == nil {
		return
	}
	k.once.Do(func() {
		if err := k.proc.Signal(unix.SIGKILL); err != nil && err != ErrDone {
			k.arena.cancel() // its last step, the kill, then fails
			unix.Close(k.lifeline)
			k.lifeline = -1
		}
		k.proc.Wait()
		k.proc.Close()
		k.arena.awaitRelease()
		k.arena.free()
		if k.lifeline >= 0 {
			unix.Close(k.lifeline)
		}
	})
}
