package main

import (
	"flag"

	"wolffia.dev/cgroup"
)

// limitFlags are the flags of the container's control group.
type limitFlags struct {
	flags   cgroup.Flags
	mode    string
	parent  string
	manager string
	access  string
}

// declare is their part of the flag set.
func (l *limitFlags) declare(f *flag.FlagSet) {
	f.StringVar(&l.flags.Memory, "memory", "", "")
	f.StringVar(&l.flags.MemorySwap, "memory-swap", "", "")
	f.StringVar(&l.flags.MemoryHigh, "memory-high", "", "")
	f.StringVar(&l.flags.MemoryLow, "memory-low", "", "")
	f.StringVar(&l.flags.MemoryMin, "memory-min", "", "")
	f.BoolVar(&l.flags.OOMGroup, "oom-group", false, "")
	f.StringVar(&l.flags.CPUs, "cpus", "", "")
	f.StringVar(&l.flags.CPUWeight, "cpu-weight", "", "")
	f.StringVar(&l.flags.CPUSetCPUs, "cpuset-cpus", "", "")
	f.StringVar(&l.flags.CPUSetMems, "cpuset-mems", "", "")
	f.StringVar(&l.flags.Pids, "pids-limit", "", "")
	f.Func("cgroup-conf", "", list(&l.flags.Conf))
	f.StringVar(&l.mode, "limits", "require", "")
	f.StringVar(&l.parent, "cgroup-parent", "", "")
	f.StringVar(&l.manager, "cgroup-manager", "auto", "")
	f.StringVar(&l.access, "cgroup", "ro", "")
}

// cgroups puts them into the options.
func (w *words) cgroups() error {
	l, o := &w.limit, &w.opts.Cgroups
	var err error
	if o.Limits, err = l.flags.Limits(); err != nil {
		return &usageError{err.Error()}
	}
	switch l.mode {
	case string(cgroup.Require):
	case string(cgroup.Try):
		o.Mode = cgroup.Try
	default:
		return &usageError{"--limits " + l.mode + ": require (a limit is in force, or nothing starts) or try (it starts without, with a warning)"}
	}
	switch l.manager {
	case "auto":
	case string(cgroup.Direct), string(cgroup.Systemd):
		o.Manager = cgroup.Manager(l.manager)
	default:
		return &usageError{"--cgroup-manager " + l.manager + ": auto, direct (no D-Bus) or systemd"}
	}
	switch l.access {
	case "ro", "rw":
		o.Writable = l.access == "rw"
	default:
		return &usageError{"--cgroup " + l.access + ": ro (the container sees its own cgroup) or rw (it may make cgroups below)"}
	}
	o.Parent = l.parent
	return nil
}
