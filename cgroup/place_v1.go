package cgroup

import "slices"

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
	g := Planned{Placement: V1, Version: 1, Base: chain[0].Path, Path: chain[0].Path + "/" + c.name, Outer: outerMemory(chain, "memory.limit_in_bytes")}
	c.folder(g.Path)
	c.writes(limits, 1, g.Path, chain)
	if g.Birth = g.Path; c.wish.Writable {
		g.Birth = c.inside(g.Path, 1)
	}
	c.plan.After = append(c.plan.After, Step{Name: "put the child into its cgroup", Op: OpAttach, Path: g.Birth + "/cgroup.procs", Data: ChildPID, Man: "cgroups(7)",
		Why: "CLONE_INTO_CGROUP knows v2 only: the child waits at its gate meanwhile"})
	for _, l := range left {
		c.note("outer limit left behind: the container isn't below %s", l)
	}
	c.plan.Groups = append(c.plan.Groups, g)
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
