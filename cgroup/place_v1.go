package cgroup

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// legacy places what goes to v1 hierarchies: each has a folder of its own. It
// has to lie below our own cgroup, or be named by the user: a move elsewhere
// would leave an outer limit behind.
func (c *compiler) legacy(limits Limits) {
	var order []*Hierarchy
	by := map[*Hierarchy]Limits{}
	for _, l := range limits {
		h := c.facts.v1(l.Controller(1))
		if !slices.Contains(order, h) {
			order = append(order, h)
		}
		by[h] = append(by[h], l)
	}
	for _, h := range order {
		chain, left, r := c.legacyBase(h)
		if r != nil {
			r.Controller = by[h][0].Controller(1)
			c.refuse(r, by[h])
			continue
		}
		if r := c.emptyCpuset(h, chain[0]); r != nil {
			c.refuse(r, by[h])
			continue
		}
		c.legacyBuild(chain, left, c.withCpuset(h, chain[0], by[h]))
	}
}

// freezer adds a folder of v1's freezer hierarchy, where there is no v2 cgroup,
// which can be frozen anyway.
func (c *compiler) freezer() {
	if !c.wish.Freezer || len(c.plan.Groups) == 0 || c.plan.Groups[0].Version == 2 {
		return
	}
	h := c.facts.v1("freezer")
	if h == nil {
		c.refuse(&Refusal{Reason: NoController, Controller: "freezer", Path: c.facts.Root, Cause: "freezing takes cgroup v2 or v1's freezer, and neither is mounted at " + c.facts.Root,
			Remedy: "sudo sh -c 'mkdir -p " + c.facts.Root + "/freezer && mount -t cgroup -o freezer none " + c.facts.Root + "/freezer'"}, nil)
		return
	}
	chain, left, r := c.legacyBase(h)
	if r != nil {
		r.Controller = "freezer"
		c.refuse(r, nil)
		return
	}
	c.legacyBuild(chain, left, nil)
}

func (c *compiler) legacyBase(h *Hierarchy) (chain []Folder, left []string, r *Refusal) {
	chain = h.Chain
	switch {
	case c.wish.Parent != "" && h.Named == nil:
		return nil, nil, c.notThere(h)
	case c.wish.Parent != "":
		chain = h.Named
	case h.Missing != "":
		return nil, nil, c.missing(h)
	}
	if !chain[0].Mkdir {
		return nil, nil, c.notDelegated(h, chain[0])
	}
	for i, f := range h.Chain {
		if within(chain[0].Path, f.Path) {
			return chain, leftBehind(h.Chain[:i]), nil
		}
	}
	return chain, leftBehind(h.Chain), nil
}

func (c *compiler) legacyBuild(chain []Folder, left []string, limits Limits) {
	g := Planned{Placement: V1, Version: 1, Base: chain[0].Path, Path: chain[0].Path + "/" + c.name,
		Outer: outerMemory(chain, "memory.limit_in_bytes"), Least: leastMemory(chain, "memory.limit_in_bytes")}
	c.folder(g.Path)
	c.writes(limits, 1, g.Path, chain)
	if g.Birth = g.Path; c.wish.Writable {
		g.Birth = c.inside(g.Path, 1, nil)
	}
	c.plan.Inside = append(c.plan.Inside, c.enter(len(c.plan.Inside)/3+1, g.Birth)...)
	for _, l := range left {
		c.note("outer limit left behind: the container isn't below %s", l)
	}
	c.plan.Groups = append(c.plan.Groups, g)
}

// enter are the child's steps into a v1 folder: CLONE_INTO_CGROUP knows v2 only. A
// thread that moves itself by "tasks" costs some µs. To move it from outside, by
// cgroup.procs, the kernel takes a lock that stops every fork and exit of the
// machine, and waits for an RCU grace period first: 5 to 17 ms here
// (cgroup_procs_write_start(), kernel/cgroup/cgroup.c).
func (c *compiler) enter(n int, folder string) nsexec.Program {
	slot := fmt.Sprint("cgroup", n)
	open := nsexec.Openat(nsexec.AtCWD(), folder+"/tasks", unix.O_WRONLY|unix.O_CLOEXEC, 0).As(slot).Named("open the cgroup's tasks").
		Because("CLONE_INTO_CGROUP knows v2 only: in a v1 cgroup the child puts itself")
	write := nsexec.Write(nsexec.Slot(slot), "0").Named("enter the cgroup").
		Because("0 is the writer itself: from here on the limits hold, and nothing of the image has run")
	if c.wish.Mode == Try {
		open = open.Allow("with --limits=try the folder may not be there: the result tells", unix.ENOENT)
		write = write.Allow("the same", unix.EBADF)
	}
	return nsexec.Program{open, write, nsexec.Close(nsexec.Slot(slot)).Named("close tasks").Allow("the same", unix.EBADF)}
}

// withCpuset: a v1 cpuset takes no process before both of its lists are set
// (ENOSPC, cpuset(7)); what isn't asked for is the parent's.
func (c *compiler) withCpuset(h *Hierarchy, parent Folder, limits Limits) Limits {
	if !contains(h.Controllers, "cpuset") {
		return limits
	}
	for _, file := range []string{"cpuset.mems", "cpuset.cpus"} {
		if limits.index(file) < 0 {
			limits = append(Limits{one(file, "as in "+parent.Path, parent.Values[file], Setting{file, parent.Values[file]})}, limits...)
		}
	}
	return limits
}

func (c *compiler) emptyCpuset(h *Hierarchy, parent Folder) *Refusal {
	if !contains(h.Controllers, "cpuset") {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if parent.Values[file] == "" {
			return &Refusal{Reason: EmptyCpuset, Controller: "cpuset", Path: parent.Path,
				Cause:  parent.Path + "/" + file + " is empty, and a child can have no more than its parent",
				Remedy: "sudo sh -c 'cat " + h.Mount + "/" + file + " >" + parent.Path + "/" + file + "'"}
		}
	}
	return nil
}
