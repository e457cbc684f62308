package container

import (
	"strings"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// idmappedRoot: a start by root whose container has other ids keeps the files'
// owners on disk by an idmapped mount of the root.
func (c *compiler) idmappedRoot() bool {
	return c.facts.IDs.Privileged && c.opts.Root.Kind != RootHost && !identity(c.maps.UID)
}

func identity(m userns.IDMap) bool {
	for _, e := range m {
		if e.Inside != e.Outside {
			return false
		}
	}
	return true
}

// hostLane is the launcher's half of the start.
func (c *compiler) hostLane() []nsexec.HostStep {
	h := []nsexec.HostStep{{Name: "lifeline", Op: nsexec.OpPipe, Man: "pipe(2)",
		Why: "the child waits at its gates by reading from it, and sees end of file if the launcher dies"}}
	h = append(h, c.treeSteps()...)
	h = append(h, c.cgroupSteps()...)
	h = append(h, nsexec.HostStep{Name: "make the child", Op: nsexec.OpClone, Flags: c.cloneFlags(), Man: "clone(2)",
		Why: "one call makes the process, all its namespaces and its pidfd; it shares our memory until its execve, so nothing is copied"})
	h = append(h, c.mapSteps()...)
	h = append(h, c.mapTreeSteps()...)
	h = append(h, nsexec.HostStep{Name: "open the gate", Op: nsexec.OpGate, Data: nsexec.GateMaps, Why: "the maps are written", Man: "write(2)"})
	if c.dropsDumpable() {
		h = append(h, nsexec.HostStep{Name: "open the gate", Op: nsexec.OpGate, Data: nsexec.GateCredentials, Man: "write(2)",
			Why: "no other start of this launcher needs the dumpable flag now"})
	}
	h = append(h, nsexec.HostStep{Name: "wait for execve", Op: nsexec.OpRelease, Man: "futex(2)",
		Why: "the kernel clears a word and wakes us when the child lets go of our memory (CLONE_CHILD_CLEARTID): it executed its program, or it died"})
	if c.dropsDumpable() {
		h = append(h, nsexec.HostStep{Name: "dumpable again", Op: nsexec.OpDumpable, Man: "prctl(2)",
			Why: "the child's change of ids cleared the flag, and the next child's uid_map could not be opened"})
	}
	return h
}

// mapSteps write the maps: directly where the kernel lets us, else by the
// set-uid helpers, side by side.
func (c *compiler) mapSteps() []nsexec.HostStep {
	var h []nsexec.HostStep
	var helpers []string
	helper := func(tool string, w userns.Writer, m userns.IDMap) {
		h = append(h, nsexec.HostStep{Name: tool, Op: nsexec.OpExec, Path: w.Helper, Argv: append([]string{tool, nsexec.ChildPID}, m.Fields()...),
			Man: tool + "(1)", Why: "only this set-uid program may map ids that aren't the caller's own; it runs while we go on"})
		helpers = append(helpers, tool)
	}
	if !c.maps.UIDWriter.Direct() {
		helper("newuidmap", c.maps.UIDWriter, c.maps.UID)
	}
	if !c.maps.GIDWriter.Direct() {
		helper("newgidmap", c.maps.GIDWriter, c.maps.GID)
	}
	if c.maps.UIDWriter.Direct() {
		h = append(h, writeStep("write the uid map", "uid_map", c.maps.UID.String(), "who is who: inside, outside, how many"))
	}
	if c.maps.DenySetgroups {
		h = append(h, writeStep("deny setgroups", "setgroups", "deny", "the kernel demands it before an unprivileged gid map: dropping a group could open what the group was denied"))
	}
	if c.maps.GIDWriter.Direct() {
		h = append(h, writeStep("write the gid map", "gid_map", c.maps.GID.String(), "the same for groups"))
	}
	if c.spec != nil { // removeTree's plan has no program of the user's
		h = append(h, nsexec.HostStep{Name: "keeper", Op: nsexec.OpKeep, Man: "pidfd_send_signal(2)",
			Why: "PR_SET_PDEATHSIG is lost when a program changes its ids, or clears it; this process ends the container if the launcher is killed"})
	}
	if len(helpers) > 0 {
		h = append(h, nsexec.HostStep{Name: "wait for the helpers", Op: nsexec.OpJoin, Data: strings.Join(helpers, " and "), Man: "waitid(2)",
			Why: "the child works on meanwhile; it needs the maps from its gate on"})
	}
	return h
}

func writeStep(name, file, data, why string) nsexec.HostStep {
	return nsexec.HostStep{Name: name, Op: nsexec.OpWrite, Path: "/proc/" + nsexec.ChildPID + "/" + file, Data: data, Man: "user_namespaces(7)", Why: why}
}
