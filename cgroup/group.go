package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Group is the container's cgroup: one folder, or one in each v1 hierarchy.
// It belongs to one goroutine.
type Group struct {
	Plan   *Plan
	Ledger Ledger // as far as the steps came

	folders []Planned      // with the scope's path filled in
	made    []string       // folders, in order
	locks   map[string]int // fds by folder
	scope   string
	before  Counters
	off     bool // with Try: nothing could be made
}

// New begins a plan. Its steps are then done one by one with Do: those of
// Plan.Before, until the child is made; it makes those of Plan.Inside itself.
// [Create] does the former all at once.
func New(p *Plan) *Group {
	return &Group{Plan: p, Ledger: append(Ledger(nil), p.Ledger...), folders: append([]Planned(nil), p.Groups...), locks: map[string]int{}}
}

// Create makes the container's cgroup with its limits, reads them back and
// holds them to the plan's mode: the error is a *StepError, a *LimitError, or
// with Try nil. Nothing is left behind by an error. ctx ends the wait for systemd.
func Create(ctx context.Context, p *Plan) (*Group, error) {
	g := New(p)
	for i, s := range p.Before {
		if err := g.Do(ctx, s); err != nil {
			return nil, errors.Join(stepError(p, i, s, err), g.Remove(context.WithoutCancel(ctx)))
		}
	}
	if _, err := g.Settle(); err != nil {
		return nil, errors.Join(err, g.Remove(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// Settle is due when the steps of Plan.Before are done: it holds the ledger to
// the plan's mode, and notes the counters that the certificate begins with.
func (g *Group) Settle() (warnings []string, err error) {
	for _, f := range g.Folders() {
		g.before.readOuter(f) // its own counters are 0: it is new
	}
	return Settle(g.Plan.Mode, g.Ledger)
}

// Certify tells how the container died. It reads the counters, so it has to be
// called before Remove.
func (g *Group) Certify(end End) Certificate { return Certify(end, g.before, g.Counters()) }

// Folders are the container's cgroups. Empty when nothing was or could be made.
func (g *Group) Folders() []Planned {
	if g.off {
		return nil
	}
	return g.folders
}

// FD is what clone3 takes with CLONE_INTO_CGROUP (Linux 5.7), so that the child
// is born in its cgroup. -1: there is no v2 cgroup. It stays the group's.
func (g *Group) FD() int {
	for _, f := range g.Folders() {
		if fd, ok := g.locks[f.Birth]; ok && f.Version == 2 {
			return fd
		}
	}
	return -1
}

// Attach puts a process into the group's folders. born tells that it was cloned
// into FD: then v2's is left out. It isn't for a child that had to be made by
// clone(2), where an outer filter forbids clone3 (youki-dev/youki#2030) and so
// CLONE_INTO_CGROUP. The process must not run meanwhile: it waits at a gate.
// EACCES: it has other ids than we by now.
func (g *Group) Attach(pid int, born bool) error {
	for _, f := range g.Folders() {
		if f.Version == 2 && born {
			continue
		}
		if err := write(f.Birth+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cgroup: pid %d can't be put into %s: %w", pid, f.Birth, err)
		}
	}
	return nil
}

// Do makes one step. With Try a limit that can't be set is noted in the ledger,
// and a folder that can't be made turns all limits off, there too.
func (g *Group) Do(ctx context.Context, s Step) error {
	if g.off {
		return nil
	}
	err := g.do(ctx, s)
	if err == nil || g.Plan.Mode != Try {
		return err
	}
	cause := oneLine(err)
	if s.Entry > 0 {
		g.Ledger[s.Entry-1].fail(cause)
		return nil
	}
	for i, e := range g.Ledger {
		if e.State != NotInForce { // it has a cause of its own
			g.Ledger[i].fail(s.Name + ": " + cause)
		}
	}
	err = g.Remove(context.WithoutCancel(ctx))
	g.off = true
	return err
}

func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (g *Group) do(ctx context.Context, s Step) error {
	path := g.expand(s.Path)
	switch s.Op {
	case OpScope:
		return g.askScope(ctx, s)
	case OpMkdir:
		return g.mkdir(path)
	case OpLock:
		return g.lock(path)
	case OpMove:
		return write(path, s.Data)
	case OpEnable:
		return write(path, s.Data)
	case OpWrite:
		if s.Entry > 0 && g.Ledger[s.Entry-1].State == NotInForce {
			return nil
		}
		return write(path, s.Data)
	case OpRead:
		return g.readBack(path, s.Entry-1)
	}
	return fmt.Errorf("no such step %q (this is a bug)", s.Op)
}

func (g *Group) expand(path string) string {
	if g.scope == "" {
		return path
	}
	return strings.Replace(path, ScopePath, g.scope, 1)
}

func (g *Group) readBack(path string, entry int) error {
	e := &g.Ledger[entry]
	if e.State == NotInForce {
		return nil
	}
	text, err := read(path)
	if err != nil {
		return err
	}
	e.File = path
	e.settle(strings.TrimSpace(text))
	if strings.HasPrefix(e.Key, "cpuset.") {
		if text, err := read(path + ".effective"); err == nil { // v2; v1 refuses such a write
			e.confine(strings.TrimSpace(text))
		}
	}
	return nil
}
