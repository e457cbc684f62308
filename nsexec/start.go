package nsexec

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Start executes a plan: the host lane here, step by step, and the child lane
// in the child that OpClone makes. It returns when the child has executed its
// program, or with the first step that failed; then nothing of the start is
// left. Ending the context kills the child and the host lane's programs. The
// report tells what every step did, also after a failure.
func (s *Spawner) Start(ctx context.Context, plan *Plan) (*Process, *Report, error) {
	if err := plan.Validate(); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, cancelled(ctx, nil)
	}
	l := newLaunch(s, plan)
	hostErr := l.runHost(ctx)
	hostErr = l.finish(ctx, hostErr)
	if err := l.outcome(ctx, hostErr); err != nil {
		return nil, l.report, err
	}
	return l.child, l.report, nil
}

// runHost executes the host lane. A step that fails ends it.
func (l *launch) runHost(ctx context.Context) error {
	for i, h := range l.plan.Host {
		r := &l.report.Host[i]
		r.Started, r.Start = true, Ticks()
		ret, err := l.step(ctx, i, h)
		r.End, r.Ret, r.Ran = Ticks(), ret, true
		if err != nil {
			r.Ret = failedRet(err)
			return &StepError{Lane: LaneHost, Index: i, Total: len(l.plan.Host), Name: h.Name,
				Call: h.String(), Errno: errnoOf(err), Ret: r.Ret, Cause: causeOf(err)}
		}
		if h.Op == OpClone {
			l.unwatch = whenEnded(ctx, l.cancelChild)
		}
	}
	return nil
}

func (l *launch) step(ctx context.Context, i int, h HostStep) (int64, error) {
	if l.plan.Fault.at(LaneHost, i) {
		return 0, l.plan.Fault.Errno
	}
	return l.do(ctx, h)
}

// errnoOf is the errno inside err, or 0.
func errnoOf(err error) unix.Errno {
	var e unix.Errno
	errors.As(err, &e)
	return e
}

// failedRet is the return value that a report shows for a host step that
// failed; EIO stands for a failure without an errno, such as a program's.
func failedRet(err error) int64 {
	if e := errnoOf(err); e != 0 {
		return -int64(e)
	}
	return -int64(unix.EIO)
}

// causeOf drops the cause where it is nothing but the errno.
func causeOf(err error) error {
	if _, bare := err.(unix.Errno); bare {
		return nil
	}
	return err
}

// outcome finds the error to tell, and reaps a child that failed. A step that
// the child refused explains more than the host step that met its absence.
func (l *launch) outcome(ctx context.Context, hostErr error) error {
	err := hostErr
	if l.child != nil {
		if refused := l.plan.Child.refused(l.report.Child); refused != nil && !l.arena.canceled.Load() {
			err = refused
		}
		if err == nil && l.plan.Child.Stopped(l.report.Child) < 0 {
			return nil
		}
		status, waitErr := l.kill()
		if err == nil {
			err = l.killedError(status, waitErr)
		} else if waitErr != nil {
			err = errors.Join(err, waitErr)
		}
	}
	if err != nil && ctx.Err() != nil {
		return cancelled(ctx, err)
	}
	return err
}

func cancelled(ctx context.Context, err error) error {
	if err == ctx.Err() {
		err = nil
	}
	return fmt.Errorf("nsexec: the start was cancelled: %w", errors.Join(context.Cause(ctx), err))
}

// kill ends the child and reaps it. Only a child that can't be signalled and
// whose program runs already is left: waiting for it could take for ever.
func (l *launch) kill() (ExitStatus, error) {
	defer l.child.Close()
	err := l.child.Signal(unix.SIGKILL)
	if err != nil && err != ErrDone && l.plan.Child.Executed(l.report.Child) {
		return ExitStatus{}, fmt.Errorf("the child, pid %d, still runs: %w", l.child.PID, err)
	}
	status, err := l.child.Wait()
	if err == ErrDone { // somebody else reaped it: it is gone, as it should be
		err = nil
	}
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

// refused is the error of the step whose result the policy didn't accept, or
// of an execve when every one failed: as with execvp(3), the first that found
// something, else the last.
func (p Program) refused(results []Result) error {
	exec := -1
	for i, r := range results {
		if !r.Ran {
			return nil
		}
		if !p[i].Policy.Accepts(r.Ret) {
			return p.stepError(i, r, nil)
		}
		if p[i].Call == unix.SYS_EXECVE && (exec < 0 || notFound(results[exec].Errno())) {
			exec = i
		}
	}
	if exec >= 0 {
		return p.stepError(exec, results[exec], nil)
	}
	return nil
}

func notFound(e unix.Errno) bool { return e == unix.ENOENT || e == unix.ENOTDIR }

func (p Program) stepError(i int, r Result, cause error) error {
	call := p[i]
	call.Save, call.Policy = "", Policy{}
	return &StepError{Lane: LaneChild, Index: i, Total: len(p), Name: p[i].Name, Call: call.String(),
		Ret: r.Ret, Errno: r.Errno(), Cause: cause}
}
