package nsexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// do makes one step of the host lane.
func (l *launch) do(ctx context.Context, h HostStep) (int64, error) {
	switch h.Op {
	case OpPipe:
		return l.pipe()
	case OpOpenTree:
		return l.openTree(h)
	case OpSocket:
		return l.socket()
	case OpNetwork:
		return 0, l.network(ctx)
	case OpReady:
		return 0, l.ready(ctx)
	case OpCgroup:
		return 0, l.cgroup(ctx, h)
	case OpClone:
		return l.clone(ctx, h.Flags)
	case OpWrite:
		return l.write(l.expand(h.Path), h.Data)
	case OpExec:
		return l.exec(ctx, h)
	case OpJoin:
		return l.join()
	case OpUserns:
		return l.openUserns(ctx, h)
	case OpPropagation:
		return 0, setattr(l.inputs[h.Save], unix.AT_RECURSIVE, unix.MountAttr{Propagation: h.Flags})
	case OpIDMap:
		return 0, l.idmap(h)
	case OpGate:
		return l.open(ctx, h.Data)
	case OpKeep:
		return l.keep()
	case OpRelease:
		l.arena.awaitRelease()
		return 0, nil
	case OpDumpable:
		defer l.release()
		return 0, l.dumpable()
	}
	return 0, fmt.Errorf("no such host step %q (this is a bug)", h.Op)
}

func (l *launch) pipe() (int64, error) {
	read, write, err := highPipe()
	if err != nil {
		return 0, err
	}
	l.inputs[Lifeline], l.lifeline = uint64(read), write
	return int64(read), nil
}

// clone makes the child. From here until its maps are written other starts may
// not clear our dumpable flag: /proc/CHILD would belong to root.
func (l *launch) clone(ctx context.Context, flags uint64) (int64, error) {
	window := &l.spawner.dumpable
	if err := l.lock(ctx, window.rlock, window.runlock); err != nil {
		return 0, err
	}
	b := birth{program: l.plan.Child, inputs: l.inputs, flags: flags &^ unix.CLONE_INTO_CGROUP, fault: l.plan.Fault}
	if flags&unix.CLONE_INTO_CGROUP != 0 && l.plan.Cgroup != nil {
		b.cgroup = l.plan.Cgroup.FD()
		b.into = b.cgroup >= 0
	}
	a, child, err := l.spawner.make(b)
	if err != nil {
		return 0, err
	}
	l.arena, l.child = a, child
	if a.skip > 0 {
		l.report.Notes = append(l.report.Notes, fallbackNote(a))
	}
	return int64(child.PID), l.moveLate(b, a)
}

// moveLate puts a child into its cgroup that clone(2) made outside: clone3(2)
// alone knows CLONE_INTO_CGROUP (youki-dev/youki#2030).
func (l *launch) moveLate(b birth, a *arena) error {
	if !b.into || a.head.args.flags&unix.CLONE_INTO_CGROUP != 0 {
		return nil
	}
	note, err := l.plan.Cgroup.Move(l.child.PID)
	if err == nil {
		l.report.Notes = append(l.report.Notes, note)
	}
	return err
}

var errNoCgroup = errors.New("the plan has no Cgroup (this is a bug)")

func (l *launch) cgroup(ctx context.Context, h HostStep) error {
	if l.plan.Cgroup == nil {
		return errNoCgroup
	}
	return l.plan.Cgroup.Do(ctx, h.Number)
}

// expand puts the child's pid where ChildPID stands.
func (l *launch) expand(s string) string {
	if !namesChild(s) {
		return s
	}
	return strings.Replace(s, ChildPID, strconv.Itoa(l.child.PID), 1)
}

// write makes one write(2): the kernel takes an id map in a single one.
func (l *launch) write(path, data string) (int64, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, []byte(data))
	if err == nil && n < len(data) {
		return int64(n), io.ErrShortWrite
	}
	return int64(n), err
}

// open lets the child pass a gate. Opening GateMaps ends our use of /proc/CHILD;
// GateCredentials is opened when no other start is in that phase, and holds
// them off until OpDumpable.
func (l *launch) open(ctx context.Context, gate string) (int64, error) {
	switch gate {
	case GateMaps:
		l.release()
	case GateCredentials:
		if err := l.exclude(ctx); err != nil {
			return 0, err
		}
	}
	n, err := unix.Write(l.lifeline, []byte{'.'})
	if err == unix.EPIPE {
		err = nil // the child is gone: its own step tells why
	}
	return int64(n), err
}

// exclude waits until no other start needs our dumpable flag, which this
// start's child will clear.
func (l *launch) exclude(ctx context.Context) error {
	window := &l.spawner.dumpable
	if err := l.lock(ctx, window.lock, window.unlock); err != nil {
		return err
	}
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	l.restore = was == 1
	return os.NewSyscallError("prctl(PR_GET_DUMPABLE)", err)
}
