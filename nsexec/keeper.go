package nsexec

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// keeper ends a container whose launcher was killed. PR_SET_PDEATHSIG does that
// as long as the container's program keeps its credentials: a change of ids
// clears it (gosu, su, a daemon that drops root). The keeper is a child of the
// same kind, in no namespace, that waits for the end of its lifeline and then
// sends SIGKILL through the pidfd; with the container it ends by itself. It has
// a process group of its own, so that what kills the launcher's doesn't kill it
// too.
type keeper struct {
	proc     *Process
	arena    *arena
	lifeline int // the pipe's write end: the keeper acts when it closes
	once     sync.Once
}

// keeperSteps hold the lifeline as fd 3 and n pidfds behind it, and nothing else:
// no stdin, stdout or stderr either, whose other ends would wait for us. The
// inputs are moved out of the way before they get their numbers.
func keeperSteps(n int) Program {
	p := Program{Prctl("PR_SET_NAME", unix.PR_SET_NAME, Str("wolffia-keeper")).Named("a name for ps(1)")}
	inputs := []string{Lifeline}
	for i := range n {
		inputs = append(inputs, pidfdSlot(i))
	}
	for _, slot := range inputs {
		p = append(p, call(unix.SYS_FCNTL, Slot(slot), Const("F_DUPFD_CLOEXEC", unix.F_DUPFD_CLOEXEC), Int(16)).
			As("high "+slot).Named("keep ", slot, " clear of the low numbers"))
	}
	for i, slot := range inputs {
		p = append(p, Dup3(Slot("high "+slot), Int(3+i), unix.O_CLOEXEC).Named(slot))
	}
	p = append(p,
		CloseRange(0, 2, 0).Named("close stdio"),
		CloseRange(uint32(4+n), ^uint32(0), 0).Named("close all else"),
		call(unix.SYS_PPOLL, pollIn34(), Int(2), Null(), Null(), Int(8)).Named("wait for the launcher's death or the container's"))
	for i := range n {
		p = append(p, call(unix.SYS_PIDFD_SEND_SIGNAL, Int(4+i), Const("SIGKILL", uint64(unix.SIGKILL)), Null(), Int(0)).
			Named("kill ", pidfdSlot(i)).Allow("it has ended, or is none of ours any more", unix.ESRCH, unix.EPERM))
	}
	return p
}

// pollIn34 are two struct pollfd: the lifeline, which hangs up when the launcher
// dies, and the container's pidfd, which is readable when that has ended.
func pollIn34() Arg { return pollFDs(3, 4) }

// pollFDs is an array of struct pollfd that waits for POLLIN.
func pollFDs(list ...int) Arg {
	var fds []byte
	var text []string
	for _, fd := range list {
		fds = binary.NativeEndian.AppendUint32(fds, uint32(fd))
		fds = binary.NativeEndian.AppendUint16(fds, unix.POLLIN)
		fds = binary.NativeEndian.AppendUint16(fds, 0)
		text = append(text, fmt.Sprintf("{fd=%d, events=POLLIN}", fd))
	}
	return Bytes("["+strings.Join(text, ", ")+"]", fds)
}

// pidfdSlot 0 is the container, the others are programs of the host lane.
func pidfdSlot(i int) string { return "pidfd" + strconv.Itoa(i) }

// keep makes the keeper, for the child and for the programs that run beside it:
// their set-uid execve cleared PR_SET_PDEATHSIG too. The gates' bytes and the
// keeper can't share a pipe: it gets one of its own.
func (l *launch) keep() (int64, error) {
	inputs, release, err := l.pidfds()
	defer release()
	if err != nil {
		return 0, err
	}
	read, write, err := highPipe()
	if err != nil {
		return 0, err
	}
	defer unix.Close(read)
	inputs[Lifeline] = uint64(read)
	a, proc, err := l.spawner.make(birth{program: keeperSteps(len(inputs) - 1), inputs: inputs})
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

// pidfds lends those of the child and of the running programs.
func (l *launch) pidfds() (inputs map[string]uint64, release func(), err error) {
	procs := []*Process{l.child}
	for _, p := range l.programs {
		procs = append(procs, p.proc)
	}
	inputs = map[string]uint64{}
	var lent []*Process
	for i, p := range procs {
		fd, ok := p.handle.acquire()
		if !ok {
			err = ErrDone
			break
		}
		inputs[pidfdSlot(i)] = uint64(fd)
		lent = append(lent, p)
	}
	return inputs, func() {
		for _, p := range lent {
			p.handle.release()
		}
	}, err
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
