package container

import (
	"os"
	"path"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
)

// Cgroups are what Options say of the container's control group.
type Cgroups struct {
	Limits   cgroup.Limits  // of flags; they win over linux.resources
	Mode     cgroup.Mode    // when a limit can't be in force: refuse, or go on
	Parent   string         // make it in this cgroup and nowhere else
	Manager  cgroup.Manager // who makes it
	Writable bool           // the container may make cgroups of its own
}

// cgroupWish joins flags and spec to what package cgroup is asked for.
func cgroupWish(limits *limitsOf, o *Cgroups) cgroup.Wish {
	w := cgroup.Wish{Limits: limits.spec.Over(o.Limits), Mode: o.Mode, Parent: limits.parent, Name: limits.name, Manager: o.Manager, Writable: o.Writable}
	if o.Parent != "" {
		w.Parent = o.Parent
	}
	return w
}

// limitsOf is what a spec asks for.
type limitsOf struct {
	spec         cgroup.Limits
	parent, name string // linux.cgroupsPath
	notes        []string
}

// asked tells whether anything of a wish concerns a cgroup.
func asked(w cgroup.Wish) bool { return len(w.Limits) > 0 || w.Parent != "" || w.Writable }

// cgroupGroup plans the container's control group. Who asks for nothing has none:
// the container stays in the caller's.
func (c *compiler) cgroupGroup() error {
	limits, err := specLimits(c.spec)
	if err != nil {
		return err
	}
	for _, n := range limits.notes {
		c.note("%s", n)
	}
	w := cgroupWish(limits, &c.opts.Cgroups)
	if !asked(w) {
		if limits.name != "" {
			c.note("linux.cgroupsPath: no limit is asked for, so the container stays in the caller's cgroup")
		}
		return nil
	}
	if c.facts.Cgroup == nil {
		return &RequestError{"limits", "the facts of this machine say nothing of its control groups", "save them anew: wolffia explain --facts-save FILE"}
	}
	if err := c.checkWritable(w); err != nil {
		return err
	}
	c.limits = w.Limits
	if c.cgroup, err = cgroup.Compile(w, c.facts.Cgroup); err != nil {
		return err
	}
	for _, n := range c.cgroup.Notes {
		c.note("%s", n)
	}
	for _, r := range c.cgroup.Refused {
		c.warn("%s", r)
	}
	return nil
}

// minMemory is the least memory limit, in pages, beside one page for each of the
// child's steps. A start is charged for the mounts and files that it makes, some
// 300 KiB for 200 steps on Linux 6.18. Where that is too much the OOM killer kills
// the child, and with it every process that shares its memory: the launcher, too
// (__oom_kill_process(), mm/oom_kill.c).
const minMemory = 512

// checkMemory is due when the child's lane is complete.
func (c *compiler) checkMemory() error {
	least := uint64((minMemory + len(c.child)) * os.Getpagesize())
	const tooLittle = "a start itself takes kernel memory, and the kernel would kill the launcher, whose memory the child shares until its execve"
	if c.cgroup != nil {
		for _, g := range c.cgroup.Groups {
			if g.Least > 0 && g.Least < least {
				return &RequestError{"a cgroup in " + g.Base, "a memory limit there or above it is " + cgroup.SizeText(g.Least) + "; " + tooLittle,
					"choose another --cgroup-parent, or raise the limit to " + cgroup.SizeText(least)}
			}
		}
	}
	for _, l := range c.limits {
		if l.Key != "memory.max" || len(l.V2) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(l.V2[0].Value, 10, 64); err == nil && n < least {
			return &RequestError{l.Asked, tooLittle, "give it at least " + cgroup.SizeText(least)}
		}
	}
	return nil
}

// checkWritable: what --cgroup rw takes.
func (c *compiler) checkWritable(w cgroup.Wish) error {
	switch {
	case !w.Writable:
	case c.facts.Cgroups != cgroup.Unified:
		return &RequestError{"--cgroup rw", "only cgroup v2 can be delegated to a container safely (cgroups(7)), and " + cgroup.Root + " isn't cgroup v2 here",
			"leave it out; or boot with systemd.unified_cgroup_hierarchy=1"}
	case !c.has(unix.CLONE_NEWCGROUP):
		return &RequestError{"--cgroup rw", "the cgroup namespace is the host's, so all of its groups would be shown writable", "leave --share cgroup out"}
	case c.facts.IDs.Privileged && !identity(c.maps.UID):
		return &RequestError{"--cgroup rw", "started by root, the container's root has another id, and giving it a cgroup isn't built yet",
			"use --map host, or start as an ordinary user"}
	}
	return nil
}

// cgroupView is the mount of its own cgroup that a container with limits gets, so
// that programs in it can see them. A bundle says for itself what is mounted.
func (c *compiler) cgroupView() []specs.Mount {
	there := func(m specs.Mount) bool { return path.Clean(m.Destination) == cgroup.Root }
	if !c.grouped() || c.facts.Cgroups != cgroup.Unified || !c.has(unix.CLONE_NEWCGROUP) || c.opts.Root.Kind == RootDirect ||
		slices.ContainsFunc(c.spec.Mounts, there) {
		return nil
	}
	return []specs.Mount{{Destination: cgroup.Root, Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "nodev", "noexec"}}}
}

// cgroupSteps are the host lane's steps up to the child's birth.
func (c *compiler) cgroupSteps() []nsexec.HostStep {
	if c.cgroup == nil {
		return nil
	}
	var h []nsexec.HostStep
	for i, s := range c.cgroup.Before {
		h = append(h, nsexec.HostStep{Name: s.Name, Op: nsexec.OpCgroup, Number: i, Data: s.String(), Why: s.Why, Man: s.Man})
	}
	return h
}

// enterSteps put the child into the cgroups in which it couldn't be born.
func (c *compiler) enterSteps() nsexec.Program {
	if c.cgroup == nil {
		return nil
	}
	return c.cgroup.Inside
}

// grouped tells whether the container gets a cgroup of its own.
func (c *compiler) grouped() bool { return c.cgroup != nil && len(c.cgroup.Groups) > 0 }

// cloneFlags are those of the child's birth. A network namespace is made later
// (package network), and a cgroup namespace when the child is in its cgroup: what
// it is in then is the namespace's root (cgroup_namespaces(7)), and clone3 would
// take the launcher's.
func (c *compiler) cloneFlags() uint64 {
	flags := c.flags &^ unix.CLONE_NEWNET
	if !c.grouped() {
		return flags
	}
	flags &^= unix.CLONE_NEWCGROUP
	if slices.ContainsFunc(c.cgroup.Groups, func(g cgroup.Planned) bool { return g.Version == 2 }) {
		flags |= unix.CLONE_INTO_CGROUP
	}
	return flags
}

// cgroupNamespace is the child's step that makes its cgroup the root of what it sees.
func (c *compiler) cgroupNamespace() nsexec.Program {
	if !c.grouped() || !c.has(unix.CLONE_NEWCGROUP) {
		return nil
	}
	return nsexec.Program{nsexec.Unshare(unix.CLONE_NEWCGROUP).Named("new cgroup namespace").
		Because("the cgroup that the child is in becomes the root of what it sees: now it is its own")}
}
