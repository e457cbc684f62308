package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
)

// group is the container's control group while it lives: it does the host lane's
// OpCgroup steps and certifies the end.
type group struct {
	*cgroup.Group
	warnings []string // of limits that aren't in force, or not what is reached first

	stays string // of processes that outlived the first one

	watch *cgroup.Watch
	mu    sync.Mutex
	last  time.Time // of an OOM kill
	done  chan struct{}
}

func newGroup(plan *Plan) (g *group, err error) {
	if plan.Cgroup == nil {
		return nil, nil
	}
	g = &group{Group: cgroup.New(plan.Cgroup)}
	if len(plan.Cgroup.Before) == 0 { // with Try, of which nothing can be had
		g.warnings, err = g.Settle()
	}
	return g, err
}

// Do makes step n of the plan. Behind the last one before the child's
// birth the ledger is held to the mode: nothing starts without its limits.
func (g *group) Do(ctx context.Context, n int) error {
	before := g.Plan.Before
	if err := g.Group.Do(ctx, before[n]); err != nil || n < len(before)-1 {
		return err
	}
	warnings, err := g.Settle()
	g.warnings = warnings
	return err
}

// Move is for a child that clone(2) made.
func (g *group) Move(child int) (note string, err error) {
	return "the child wasn't born in its cgroup, as clone(2) doesn't know CLONE_INTO_CGROUP: it was moved there before its first gate", g.Attach(child, false)
}

// begin watches for OOM kills while the container runs.
func (g *group) begin() {
	if g == nil {
		return
	}
	w, err := g.Watch()
	if err != nil {
		return // no memory controller in the container's cgroup: none of its OOM kills are a limit's
	}
	g.watch, g.done = w, make(chan struct{})
	go g.look()
}

func (g *group) look() {
	defer close(g.done)
	seen := uint64(0)
	for {
		now, err := g.watch.Wait(context.Background(), seen)
		if err != nil {
			return
		}
		seen = now.OOMKill
		g.mu.Lock()
		g.last = time.Now()
		g.mu.Unlock()
	}
}

// certify tells how the container died. Its cgroup is still there.
func (g *group) certify(status nsexec.ExitStatus, ours bool) *cgroup.Certificate {
	if g == nil {
		return nil
	}
	end := cgroup.End{Code: status.Code, Signal: status.Signal, Ours: ours}
	died := time.Now()
	g.unwatch()
	if !g.last.IsZero() {
		end.SinceKill = died.Sub(g.last)
	}
	certificate := g.Certify(end)
	return &certificate
}

func (g *group) unwatch() {
	if g.watch != nil {
		g.watch.Close()
		<-g.done
		g.watch = nil
	}
}

// close removes the container's cgroup, unless processes live on in it.
func (g *group) close() error {
	if g == nil {
		return nil
	}
	g.unwatch()
	err := g.Remove(context.Background())
	if left := g.Processes(); errors.Is(err, unix.EBUSY) && len(left) > 0 {
		g.stays, err = staysText(g.Folders(), left), nil
	}
	return err
}

// staysText: without a pid namespace nothing ends what the first process started.
func staysText(folders []cgroup.Planned, left []int) string {
	pids := strings.Trim(fmt.Sprint(left), "[]")
	return fmt.Sprintf("processes of the container live on, as it has no pid namespace of its own: %s\n  their limits stay, in %s; to end them: kill %s   # a later start removes the cgroup",
		pids, folders[0].Path, pids)
}

// Stays tells of processes that outlived the container's first one; "" when there
// are none, or when nobody can tell, without a cgroup of its own.
func (c *Container) Stays() string {
	if c.group == nil {
		return ""
	}
	return c.group.stays
}

// remove is for a start that failed.
func (g *group) remove() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.Remove(context.Background()), g.Return())
}

// Return takes the launcher out of the leaf into which it moved for the
// container's limits, if it did. It is for a launcher that started one container
// and ends; another start's limits would be lost. Without it the next start
// removes the leaf.
func (c *Container) Return() error {
	if c.group == nil {
		return nil
	}
	return c.group.Return()
}

// OOM tells whether the kernel's OOM killer ended the container.
func (c *Container) OOM() bool { return c.Certificate != nil && c.Certificate.Reason == cgroup.OOM }

// endedByUs tells whether a SIGKILL was the launcher's own.
func (c *Container) endedByUs(s nsexec.ExitStatus) bool {
	return s.Signal == unix.SIGKILL && c.meant.Load() != 0
}
