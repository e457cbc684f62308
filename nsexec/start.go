package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Start executes a plan: the host lane here, step by step, and the child lane
// in the child that OpClone makes. It returns when the child has executed its
// program, or with the first step that failed; then nothing of the start is
// left. Ending the context kills the child. The report tells what every step
// did, also after a failure.
func (s *Spawner) Start(ctx context.Context, plan *Plan) (*Process, *Report, error) {
	if err := plan.Validate(); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	l := &launch{spawner: s, plan: plan, lifeline: -1, inputs: map[string]uint64{}}
	l.report = &Report{Host: make([]Result, len(plan.Host)), Clock: StartClock()}
	err := l.runHost(ctx)
	l.finish(err)
	if err = l.outcome(ctx, err); err != nil {
		return nil, l.report, err
	}
	return l.child, l.report, nil
}

// launch is one start while it happens: who owns which fd and which child.
type launch struct {
	spawner  *Spawner
	plan     *Plan
	report   *Report
	inputs   map[string]uint64 // slots of the host lane: fds that the child inherits
	lifeline int               // the pipe's write end, ours
	arena    *arena
	child    *Process
	programs []*program // started by OpExec, not yet joined
	unlock   func()     // gives the spawner's dumpable lock back
}

// runHost executes the host lane. A step that fails ends it.
func (l *launch) runHost(ctx context.Context) error {
	stop := func() bool { return true }
	defer func() { stop() }()
	for i, h := range l.plan.Host {
		r := &l.report.Host[i]
		r.Started, r.Start = true, Ticks()
		ret, err := l.do(h)
		r.End, r.Ret, r.Ran = Ticks(), ret, true
		if err != nil {
			r.Ret = -int64(errnoOf(err))
			return &StepError{Lane: "host", Index: i, Total: len(l.plan.Host), Name: h.Name,
				Call: h.String(), Errno: errnoOf(err), Ret: r.Ret, Cause: causeOf(err)}
		}
		if h.Op == OpClone {
			stop = context.AfterFunc(ctx, func() { l.child.Signal(unix.SIGKILL) })
		}
	}
	return nil
}

// errnoOf is the errno inside err, or EIO for an error without one.
func errnoOf(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// causeOf drops the cause where it is nothing but the errno.
func causeOf(err error) error {
	if _, bare := err.(unix.Errno); bare {
		return nil
	}
	return err
}

func (l *launch) do(h HostStep) (int64, error) {
	switch h.Op {
	case OpPipe:
		return l.pipe()
	case OpOpenTree:
		return l.openTree(h)
	case OpClone:
		return l.clone(h.Flags)
	case OpWrite:
		return l.write(l.expand(h.Path), h.Data)
	case OpExec:
		return l.exec(h)
	case OpJoin:
		return l.join()
	case OpIDMap:
		return 0, l.idmap(int(l.inputs[h.Save]))
	case OpGate:
		return l.open(h.Data)
	case OpRelease:
		l.arena.awaitRelease()
		return 0, nil
	case OpDumpable:
		defer l.release()
		return 0, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	return 0, fmt.Errorf("no such host step %q (this is a bug)", h.Op)
}

func (l *launch) pipe() (int64, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	l.inputs[Lifeline], l.lifeline = uint64(p[0]), p[1]
	return int64(p[0]), nil
}

// highFD keeps an inherited fd clear of the low numbers that a child's first
// steps move its fds to.
const highFD = 128

func (l *launch) openTree(h HostStep) (int64, error) {
	low, err := unix.OpenTree(unix.AT_FDCWD, h.Path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return 0, err
	}
	defer unix.Close(low)
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, highFD)
	if err == nil {
		l.inputs[h.Save] = uint64(fd)
	}
	return int64(fd), err
}

// clone makes the child. From here until its maps are written other starts may
// not clear our dumpable flag: /proc/CHILD would belong to root.
func (l *launch) clone(flags uint64) (int64, error) {
	a, err := load(l.plan.Child, l.inputs)
	if err != nil {
		return 0, err
	}
	l.arena = a
	l.lock(l.spawner.dumpable.RLock, l.spawner.dumpable.RUnlock)
	a.prepare(flags, 0)
	if l.child, err = l.spawner.spawn(a); err != nil {
		return 0, err
	}
	return int64(l.child.PID), nil
}

// lock takes one side of the dumpable lock in place of the one that is held.
func (l *launch) lock(lock, unlock func()) {
	l.release()
	lock()
	l.unlock = unlock
}

func (l *launch) release() {
	if l.unlock != nil {
		l.unlock()
		l.unlock = nil
	}
}

func (l *launch) expand(s string) string {
	return strings.ReplaceAll(s, ChildPID, strconv.Itoa(l.child.PID))
}

// write makes one write(2): the kernel takes an id map in a single one.
func (l *launch) write(path, data string) (int64, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, []byte(data))
	return int64(n), err
}

// idmap gives a detached mount the child's id map.
func (l *launch) idmap(tree int) error {
	userns, err := unix.Open("/proc/"+strconv.Itoa(l.child.PID)+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(userns)
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns)})
}

// open lets the child pass a gate. Opening GateMaps ends our use of /proc/CHILD;
// GateCredentials is opened when no other start is in that phase, and holds
// them off until OpDumpable.
func (l *launch) open(gate string) (int64, error) {
	switch gate {
	case GateMaps:
		l.release()
	case GateCredentials:
		l.lock(l.spawner.dumpable.Lock, l.spawner.dumpable.Unlock)
	}
	n, err := unix.Write(l.lifeline, []byte{'.'})
	if err == unix.EPIPE {
		err = nil // the child is gone: its own step tells why
	}
	return int64(n), err
}

// finish closes what the start no longer needs and takes the child's results.
// After a host step failed the child is killed first, so that it lets go.
func (l *launch) finish(hostErr error) {
	if hostErr != nil {
		l.killAll()
	}
	if l.lifeline >= 0 {
		unix.Close(l.lifeline)
	}
	for _, fd := range l.inputs {
		unix.Close(int(fd))
	}
	if l.arena != nil {
		l.arena.awaitRelease()
		l.report.Child = l.arena.results()
		l.arena.free()
	}
	l.release()
	l.report.Clock.Stop()
}

func (l *launch) killAll() {
	for _, p := range l.programs {
		p.abort()
	}
	l.programs = nil
	if l.child != nil {
		l.child.Signal(unix.SIGKILL)
	}
}

// outcome finds the error to tell, and reaps a child that failed. A step that
// the child refused explains more than the host step that met its absence.
func (l *launch) outcome(ctx context.Context, hostErr error) error {
	err := hostErr
	if l.child != nil {
		if refused := l.plan.Child.refused(l.report.Child); refused != nil {
			err = refused
		}
		if err == nil && l.plan.Child.Stopped(l.report.Child) < 0 {
			return nil
		}
		status, waitErr := l.kill()
		if err == nil {
			err = l.killedError(status, waitErr)
		}
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("nsexec: the start was cancelled: %w", errors.Join(context.Cause(ctx), err))
	}
	return err
}

func (l *launch) kill() (ExitStatus, error) {
	l.child.Signal(unix.SIGKILL)
	status, err := l.child.Wait()
	l.child.Close()
	return status, err
}

// killedError is for a child that died without refusing a step.
func (l *launch) killedError(status ExitStatus, waitErr error) error {
	i := l.plan.Child.Stopped(l.report.Child)
	cause := fmt.Errorf("the child was %s before this step returned", status)
	if waitErr != nil {
		cause = fmt.Errorf("the child died before this step returned: %w", waitErr)
	}
	return l.plan.Child.stepError(i, Result{}, cause)
}

// refused is the error of the step whose result the policy didn't accept, or of
// the last execve when every one failed.
func (p Program) refused(results []Result) error {
	lastExec := -1
	for i, r := range results {
		if !r.Ran {
			return nil
		}
		if !p[i].Policy.Accepts(r.Ret) {
			return p.stepError(i, r, nil)
		}
		if p[i].Call == unix.SYS_EXECVE {
			lastExec = i
		}
	}
	if lastExec >= 0 {
		return p.stepError(lastExec, results[lastExec], nil)
	}
	return nil
}

func (p Program) stepError(i int, r Result, cause error) error {
	call := p[i]
	call.Save, call.Policy = "", Policy{}
	return &StepError{Lane: "child", Index: i, Total: len(p), Name: p[i].Name, Call: call.String(),
		Ret: r.Ret, Errno: r.Errno(), Cause: cause}
}
