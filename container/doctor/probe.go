package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Options say what to look at.
type Options struct {
	Only    []string // names of checks; none: all
	Spawner *nsexec.Spawner
	Run     Runner // starts a container for the last check; nil: none is started
}

// UnknownNameError is a check or a pretence that there isn't.
type UnknownNameError struct {
	Kind  string // "check", "pretence"
	Name  string
	Known []string
}

func (e *UnknownNameError) Error() string {
	return fmt.Sprintf("there is no %s %q: one of %s", e.Kind, e.Name, strings.Join(e.Known, ", "))
}

// probeTime bounds everything that Probe does.
const probeTime = 2 * time.Minute

// Probe tries the mechanisms, one after the other. What can't be had is a fact
// and not an error: the one error is an *UnknownNameError.
func Probe(ctx context.Context, o Options) (*Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	p := &prober{ctx: ctx, spawner: o.Spawner, Facts: &Facts{UID: os.Geteuid(), Policy: container.ProbePolicy(), Kernel: kernelRelease()}}
	if p.spawner == nil {
		p.spawner = nsexec.NewSpawner()
	}
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return nil, &UnknownNameError{"check", name, Names()}
		}
	}
	for _, t := range topics() {
		if len(o.Only) == 0 || slices.Contains(o.Only, t.name) {
			t.probe(p)
		}
	}
	if o.Run != nil && len(o.Only) == 0 {
		p.Started = start(ctx, o.Run)
	}
	return p.Facts, nil
}

// prober carries one Probe.
type prober struct {
	ctx     context.Context
	spawner *nsexec.Spawner
	*Facts
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// start runs `true` in a container with every default, and where that fails with
// the one that needs the least.
func start(ctx context.Context, run Runner) *Started {
	s := &Started{}
	ran, err := run(ctx, RunOptions{Args: []string{"true"}})
	if err == nil && ran.ExitCode != 0 {
		err = fmt.Errorf("true ended with %d", ran.ExitCode)
	}
	if err == nil {
		return s
	}
	s.Err, s.Single = err.Error(), "works"
	if ran, err := run(ctx, RunOptions{Map: string(userns.Single), Args: []string{"true"}}); err != nil {
		s.Single = err.Error()
	} else if ran.ExitCode != 0 {
		s.Single = fmt.Sprintf("true ended with %d", ran.ExitCode)
	}
	return s
}
