package userns

import (
	"context"
	"errors"

	"wolffia.dev/nsexec"
)

// retire leaves a killed child to die and reaps the one before it, which is dead by now more often than not: waiting
// for the scheduler to let a child die would cost more than all else. So there is at most one zombie.
func (o *Opener) retire(ctx context.Context, c holder) error {
	o.dying.Lock()
	before, late := o.dying.child, o.dying.late
	o.dying.child, o.dying.late = c, nil
	o.dying.Unlock()
	err := o.reap(ctx, before)
	for _, c := range late {
		err = errors.Join(err, o.reap(ctx, c))
	}
	return err
}

// reap waits for a killed child; one that has not ended when the context does is kept for the next opening, or Settle.
func (o *Opener) reap(ctx context.Context, c holder) error {
	if c == nil {
		return nil
	}
	err := c.reap(ctx)
	if err != nil {
		o.dying.Lock()
		defer o.dying.Unlock()
		o.dying.late = append(o.dying.late, c)
	}
	return err
}

// Settle waits until the last child is dead and reaped. Until then it shares our memory (mechanism vm), and who has
// privilege over its namespace could read it through /proc/PID/mem: settle before you let a process that you don't
// trust into a namespace that was just opened. [Open] and [Opener.Close] do it by themselves.
func (o *Opener) Settle(ctx context.Context) error { return o.retire(ctx, nil) }

// abandon ends what a failed opening has begun. The child is killed and reaped
// whatever the context says. One that can't be killed, because a seccomp filter
// was installed after the Opener was made, isn't waited for: it ends with us.
func (x *opening) abandon() {
	if x.child != nil {
		if x.killed || x.endable() {
			x.child.reap(context.Background())
		} else {
			pidfd := x.child.pidfd()
			closeFD(&pidfd)
		}
		x.child = nil
	}
	x.close()
}

func (x *opening) endable() bool {
	err := x.child.kill()
	return err == nil || err == nsexec.ErrDone
}
