package nsexec

import (
	"context"

	"golang.org/x/sys/unix"
)

// launch is one start while it happens: who owns which fd and which child.
type launch struct {
	spawner  *Spawner
	plan     *Plan
	report   *Report
	inputs   map[string]uint64 // slots of the host lane: fds that the child inherits
	lifeline int               // the pipe's write end, ours
	handover int               // our end of the socket pair, until the Network has it
	arena    *arena
	child    *Process
	programs []*program // started by OpExec, not yet joined
	unlock   func()     // gives the spawner's dumpable lock back
	restore  bool       // the child may clear our dumpable flag, which was set
	unwatch  func() bool
}

func newLaunch(s *Spawner, plan *Plan) *launch {
	return &launch{spawner: s, plan: plan, lifeline: -1, handover: -1, inputs: map[string]uint64{}, unwatch: func() bool { return true },
		report: &Report{Host: make([]Result, len(plan.Host)), Clock: StartClock()}}
}

// lock takes one side of the dumpable window in place of the one that is held.
func (l *launch) lock(ctx context.Context, lock func(context.Context) error, unlock func()) error {
	l.release()
	if err := lock(ctx); err != nil {
		return err
	}
	l.unlock = unlock
	return nil
}

func (l *launch) release() {
	if l.unlock != nil {
		l.unlock()
		l.unlock = nil
	}
}

// finish waits until the child lets go of our memory and closes what the start
// no longer needs. After a host step failed the child is killed first. The
// lifeline is kept until then: its end tells the child that we are dead.
func (l *launch) finish(ctx context.Context, hostErr error) error {
	if hostErr != nil {
		l.killAll()
	}
	if l.arena == nil {
		l.report.Child = make([]Result, len(l.plan.Child))
	} else {
		l.arena.awaitRelease()
		l.report.Child = l.arena.results()
	}
	if !l.unwatch() && hostErr == nil { // cancelled: its kill may be on the way
		hostErr = ctx.Err()
	}
	l.close()
	if err := l.dumpable(); err != nil && hostErr == nil {
		hostErr = err
	}
	l.release()
	l.report.Clock.Stop()
	return hostErr
}

func (l *launch) close() {
	if l.lifeline >= 0 {
		unix.Close(l.lifeline)
		l.lifeline = -1
	}
	closeAll(l.handover)
	for _, fd := range l.inputs {
		unix.Close(int(fd))
	}
	l.arena.free()
}

// dumpable sets our dumpable flag again after the child may have cleared it,
// also when the start failed before OpDumpable.
func (l *launch) dumpable() error {
	if !l.restore {
		return nil
	}
	l.restore = false
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

func (l *launch) killAll() {
	for _, p := range l.programs {
		p.abort()
	}
	l.programs = nil
	if l.child == nil {
		return
	}
	if err := l.child.Signal(unix.SIGKILL); err != nil && err != ErrDone {
		l.endUnsignalled()
	}
}

// endUnsignalled ends a child that pidfd_send_signal(2) can't reach: each of
// its further steps fails, and a gate gives end of file.
func (l *launch) endUnsignalled() {
	l.arena.cancel()
	unix.Close(l.lifeline)
	l.lifeline = -1
}

// whenEnded calls f when the context ends. unwatch gives that up; it returns
// false if it came too late, and then f has returned.
func whenEnded(ctx context.Context, f func()) (unwatch func() bool) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		f()
	})
	return func() bool {
		if stop() {
			return true
		}
		<-done
		return false
	}
}

// cancelChild is called when the context ends, beside the host lane.
func (l *launch) cancelChild() {
	if err := l.child.Signal(unix.SIGKILL); err != nil && err != ErrDone {
		l.arena.cancel()
	}
}
