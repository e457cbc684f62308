package doctor

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// A child is a throw-away process: made, it takes its steps and is reaped.
type child struct {
	flags uint64            // its namespaces; with CLONE_NEWUSER our own id is root inside
	fds   map[string]uint64 // fds of ours that its steps may name as slots
	steps nsexec.Program
}

// do makes the child as a container's is made, on the host side by the same steps.
func (p *prober) do(c child) Attempt { return p.doWith(c, func(int) {}) }

// doWith calls look after the child's last step, or its execve, and before it is
// reaped: until then its pid is its own.
func (p *prober) doWith(c child, look func(pid int)) Attempt {
	process, _, err := p.spawner.Start(p.ctx, c.plan())
	if err != nil {
		return failed(err)
	}
	defer process.Close()
	look(process.PID)
	status, err := process.WaitContext(p.ctx)
	if err != nil { // it is not to outlive us, whatever it waits for
		process.Signal(unix.SIGKILL)
		return failed(err)
	}
	if status.ExitCode() != 0 {
		return failed(fmt.Errorf("the child was %s", status))
	}
	return Attempt{Tried: true}
}

func failed(err error) Attempt {
	a := Attempt{Tried: true, Err: err.Error()}
	errors.As(err, &a.Errno)
	var step *nsexec.StepError
	if errors.As(err, &step) {
		a.Step, a.Call = step.Name, step.Call
		a.Err = fmt.Sprintf("%s: %s: %s", step.Name, step.Call, errnoText(a.Errno))
	}
	return a
}

func errnoText(e unix.Errno) string { return fmt.Sprintf("%s (%s)", e, nsexec.ErrnoName(e)) }

// Names of host steps, by which a failure is judged.
const (
	stepMake   = "make the child"
	stepUIDMap = "write the uid map"
	stepGIDMap = "write the gid map"
	stepDeny   = "deny setgroups"
)

func (c child) plan() *nsexec.Plan {
	p := &nsexec.Plan{Host: []nsexec.HostStep{{Name: "lifeline", Op: nsexec.OpPipe}, {Name: stepMake, Op: nsexec.OpClone, Flags: c.flags}}}
	p.Child = c.guards()
	if c.flags&unix.CLONE_NEWUSER != 0 {
		p.Host = append(p.Host, ownMaps()...)
		p.Child = append(p.Child, nsexec.WaitGate(nsexec.Int(lifelineFD), nsexec.GateMaps))
	}
	p.Host = append(p.Host, nsexec.HostStep{Name: "wait for its end", Op: nsexec.OpRelease})
	p.Child = append(p.Child, c.steps...)
	return p
}

// ownMaps make our own ids 0 inside, as an ordinary user may.
func ownMaps() []nsexec.HostStep {
	write := func(name, file, data string) nsexec.HostStep {
		return nsexec.HostStep{Name: name, Op: nsexec.OpWrite, Path: "/proc/" + nsexec.ChildPID + "/" + file, Data: data}
	}
	return []nsexec.HostStep{
		write(stepUIDMap, "uid_map", fmt.Sprintf("0 %d 1\n", os.Geteuid())),
		write(stepDeny, "setgroups", "deny"),
		write(stepGIDMap, "gid_map", fmt.Sprintf("0 %d 1\n", os.Getegid())),
		{Name: "open the gate", Op: nsexec.OpGate, Data: nsexec.GateMaps},
	}
}

// The child's fds.
const (
	lifelineFD = 3
	lentFD     = 4
)

// guards keep the child from outliving us, from dumping our memory and from
// holding what is ours. It keeps one lent fd at most.
func (c child) guards() nsexec.Program {
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) != nil {
		core.Max = 0
	}
	steps := nsexec.Program{
		nsexec.Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, nsexec.Const("SIGKILL", uint64(unix.SIGKILL))).Named("die with the parent"),
		nsexec.NoCore(core.Max),
	}
	first := uint32(lentFD)
	for name := range c.fds {
		steps = append(steps, keep(nsexec.Int(c.fds[name]), lentFD))
		first = lentFD + 1
	}
	return append(steps, keep(nsexec.Slot(nsexec.Lifeline), lifelineFD),
		nsexec.CloseRange(first, ^uint32(0), 0).Named("close all other fds"))
}

func keep(fd nsexec.Arg, as int) nsexec.Step {
	return nsexec.Dup3(fd, nsexec.Int(as), unix.O_CLOEXEC).Named("keep an fd").Allow("it has this number already", unix.EINVAL)
}
