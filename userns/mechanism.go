package userns

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// A Mechanism is a way to make the short-lived child whose user namespace an
// [Opener] takes hold of. The namespaces are the same; the ways differ in what
// they cost and in what an outer sandbox forbids.
type Mechanism string

const (
	VM     Mechanism = "vm"     // shares our memory and fds, runs only assembly: see vm.go
	Fork   Mechanism = "fork"   // a copy of us, runs only assembly: see fork.go
	Ptrace Mechanism = "ptrace" // os/exec's child, stopped at its execve: see ptrace.go
)

// Mechanisms are all of them, the default's order of preference.
func Mechanisms() []Mechanism { return []Mechanism{VM, Fork, Ptrace} }

// holder is a process in a new user namespace that runs nothing of anybody's.
type holder interface {
	id() int    // its pid, for paths below /proc
	pidfd() int // lent
	kill() error
	reap(ctx context.Context) error // after the context's error it is still to be reaped
}

// A maker makes children by one mechanism.
type maker interface {
	make() (holder, error)
	acts() []act             // how it is made, for the list of steps
	program() nsexec.Program // what the child does
	life() string
	note() string
	close() error
}

func newMaker(m Mechanism) (maker, error) {
	switch m {
	case VM:
		return newNoopMaker(false)
	case Fork:
		return newNoopMaker(true)
	case Ptrace:
		return newPtraceMaker()
	}
	return nil, &PlanError{Reason: ReasonBadRequest, Cause: "there is no mechanism " + string(m) + " to open a user namespace",
		Remedy: "use vm, fork or ptrace"}
}

// unavailable tells that a mechanism can't work here, whatever the maps, and the
// next one may.
func unavailable(err error) bool {
	var lacking *nsexec.UnsupportedError
	var filtered *nsexec.FilteredError
	var blocked *PtraceError
	return errors.As(err, &lacking) || errors.As(err, &filtered) || errors.As(err, &blocked)
}

// noopMaker makes children by package nsexec: vm.go and fork.go.
type noopMaker struct{ noops *nsexec.Noops }

func newNoopMaker(private bool) (maker, error) {
	n, err := nsexec.NewNoops(unix.CLONE_NEWUSER, private)
	if err != nil {
		return nil, err
	}
	return &noopMaker{n}, nil
}

func (m *noopMaker) make() (holder, error) {
	c, err := m.noops.Start()
	if err != nil {
		return nil, err
	}
	return (*noop)(c), nil
}

func (m *noopMaker) acts() []act {
	return []act{{actMake, "make the child", "clone3({flags=" + nsexec.CloneFlags.Text(m.noops.Flags()) + ", exit_signal=0})",
		"exit_signal is 0: its end sends no SIGCHLD, and no wait4(-1) of this program reaps it", "clone(2)"}}
}

func (m *noopMaker) note() string { return m.noops.Note() }
func (m *noopMaker) close() error { return m.noops.Close() }

// noop is a *nsexec.Noop as a holder.
type noop nsexec.Noop

func (c *noop) id() int                        { return c.PID }
func (c *noop) pidfd() int                     { return (*nsexec.Noop)(c).FD() }
func (c *noop) kill() error                    { return (*nsexec.Noop)(c).Kill() }
func (c *noop) reap(ctx context.Context) error { return (*nsexec.Noop)(c).Reap(ctx) }
