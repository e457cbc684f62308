package container

import (
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// A hostTree is a mount that the launcher clones for the child: the id map of a
// mount needs privilege over its file system, which no container has.
type hostTree struct {
	what        string // for names of steps: "the root", "/data"
	source      string // on the host
	slot        string // in the host lane
	kept        string // the child's slot
	flags       uint64 // of the clone: AT_RECURSIVE
	mapFlags    uint64 // of the id map: the same
	propagation uint64 // MS_PRIVATE or MS_SLAVE
	userns      string // slot of a user namespace with the mount's own map; "" is the container's map
}

// rootTree is the root of a start by root.
func (c *compiler) rootTree() hostTree {
	return hostTree{what: "the root", source: c.opts.Root.Path, slot: "tree", kept: "root", flags: unix.AT_RECURSIVE,
		mapFlags: unix.AT_RECURSIVE, propagation: c.propagation()}
}

// inherit adds a tree to those that the child gets.
func (c *compiler) inherit(h hostTree) { c.trees = append(c.trees, h) }

// treeSteps are made before the child is. A map of a mount's own is given here:
// if the kernel refuses it, there is no container yet.
func (c *compiler) treeSteps() (steps []nsexec.HostStep) {
	for _, n := range c.mountNS {
		steps = append(steps, nsexec.HostStep{Name: "user namespace of an id map", Op: nsexec.OpUserns, Save: n.slot,
			UIDMap: n.uid, GIDMap: n.gid, Man: "user_namespaces(7)",
			Why: "mount_setattr(2) takes a map from a namespace that has it; no process stays in this one"})
	}
	for _, t := range c.trees {
		steps = append(steps,
			nsexec.HostStep{Name: "clone the mount of " + t.what, Op: nsexec.OpOpenTree, Path: t.source, Save: t.slot, Flags: t.flags,
				Man: "open_tree(2)", Why: "only the launcher has the privilege over its file system that an id map needs"},
			nsexec.HostStep{Name: "propagation of " + t.what, Op: nsexec.OpPropagation, Save: t.slot, Flags: t.propagation,
				Man: "mount_setattr(2)", Why: "the clone of a shared mount is its peer: what the child mounts in it would appear on the host"})
		if t.userns != "" {
			steps = append(steps, t.mapStep("files keep their owners on disk and appear under the ids that this mount's map gives them"))
		}
	}
	return steps
}

func (t hostTree) mapStep(why string) nsexec.HostStep {
	return nsexec.HostStep{Name: "idmap " + t.what, Op: nsexec.OpIDMap, Save: t.slot, Userns: t.userns, Flags: t.mapFlags,
		Man: "mount_setattr(2)", Why: why}
}

// mapTreeSteps give the mounts the container's id map, which has to be written.
func (c *compiler) mapTreeSteps() (steps []nsexec.HostStep) {
	for _, t := range c.trees {
		if t.userns == "" {
			steps = append(steps, t.mapStep("files keep their owners on disk and appear under the container's ids"))
		}
	}
	return steps
}

// keepTrees are the child's steps that keep the trees from the close_range that
// follows, at the numbers behind the lifeline.
func (c *compiler) keepTrees() (p nsexec.Program) {
	for i, t := range c.trees {
		p = append(p, nsexec.Dup3(nsexec.Slot(t.slot), nsexec.Int(c.lifelineFD()+1+i), unix.O_CLOEXEC).As(t.kept).
			Named("keep the mount of ", t.what).
			Because("the launcher cloned it and gives it an id map"))
	}
	return p
}

// checkTrees: fds that are kept must not meet those that are inherited.
func (c *compiler) checkTrees() error {
	most := nsexec.HighFD - 1 - c.lifelineFD()
	if len(c.trees) <= most {
		return nil
	}
	return &RequestError{"mounts", fmt.Sprintf("%d idmapped mounts, and with --preserve-fds %d there can be %d", len(c.trees), c.opts.PreserveFDs, most),
		"bind a folder above several of them, with one id map (-v SRC:DST:idmap takes what is mounted below it along)"}
}
