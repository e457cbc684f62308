package container

import (
	"fmt"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// ownID is the id that our own one has inside, if it has one.
func (c *compiler) ownUID() (uint32, bool) { return c.maps.UID.ToInside(c.facts.IDs.UID) }
func (c *compiler) ownGID() (uint32, bool) { return c.maps.GID.ToInside(c.facts.IDs.GID) }

// becomesRoot: the setup runs as the container's root where there is one and
// we are not it already.
func (c *compiler) becomesRoot() bool {
	_, hasRoot := c.maps.UID.ToOutside(0)
	_, hasGroup := c.maps.GID.ToOutside(0)
	uid, mappedUID := c.ownUID()
	gid, mappedGID := c.ownGID()
	isRoot := mappedUID && uid == 0 && mappedGID && gid == 0
	return hasRoot && hasGroup && !isRoot
}

// becomesUser: neither root nor we have an id inside, so the setup runs as the
// program's user. Only an id that exists inside can make files there.
func (c *compiler) becomesUser() bool {
	_, uid := c.ownUID()
	_, gid := c.ownGID()
	return !c.becomesRoot() && !(uid && gid)
}

// setupID is the id that the child has before its last credential steps.
func (c *compiler) setupIDs() (uid, gid uint32) {
	if c.becomesRoot() {
		return 0, 0
	}
	if c.becomesUser() {
		return c.user.UID, c.user.GID
	}
	uid, _ = c.ownUID()
	gid, _ = c.ownGID()
	return uid, gid
}

// changesUser: the program runs under another id than the setup.
func (c *compiler) changesUser() bool {
	uid, gid := c.setupIDs()
	return c.user.UID != uid || c.user.GID != gid
}

// dropsDumpable: a change to another id, as the kernel counts them, makes the
// memory that we share undumpable.
func (c *compiler) dropsDumpable() bool { return c.becomesRoot() || c.becomesUser() || c.changesUser() }

// credentialGate stands before the first such change.
func (c *compiler) credentialGate() nsexec.Program {
	return nsexec.Program{nsexec.WaitGate(c.lifeline(), nsexec.GateCredentials).
		Because("a change of ids clears the dumpable flag of the shared memory; no other start of the launcher may need it now")}
}

func (c *compiler) pdeathsig() nsexec.Step {
	return nsexec.Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, nsexec.Const("SIGKILL", uint64(unix.SIGKILL))).
		Named("die with the launcher, again").
		Because("a change of credentials cleared it (prctl(2))")
}

// credentialSteps turn the setup's user into the program's. They come last,
// since each of them gives up what the steps before needed.
func (c *compiler) credentialSteps() nsexec.Program {
	var p nsexec.Program
	if c.changesUser() {
		if !c.becomesRoot() {
			p = append(p, c.credentialGate()...)
		}
		p = append(p, nsexec.Prctl("PR_SET_KEEPCAPS", unix.PR_SET_KEEPCAPS, nsexec.Int(1)).Named("keep capabilities over the change of uid"))
	}
	p = append(p, c.boundingSteps()...)
	p = append(p, c.idSteps()...)
	p = append(p, c.capabilitySteps()...)
	if c.spec.Process.NoNewPrivileges {
		p = append(p, nsexec.Prctl("PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, nsexec.Int(1), nsexec.Int(0), nsexec.Int(0), nsexec.Int(0)).
			Named("no new privileges").Because("set-uid programs and file capabilities inside give nothing (PR_SET_NO_NEW_PRIVS)"))
	}
	return p
}

func (c *compiler) caps() specs.LinuxCapabilities {
	if caps := c.spec.Process.Capabilities; caps != nil {
		return *caps
	}
	return specs.LinuxCapabilities{}
}

// boundingSteps drop what no program inside may ever have.
func (c *compiler) boundingSteps() nsexec.Program {
	keep, _ := CapMask(c.caps().Bounding)
	var p nsexec.Program
	for n := range len(capabilityNames) {
		if keep&(1<<n) == 0 {
			p = append(p, nsexec.Prctl("PR_CAPBSET_DROP", unix.PR_CAPBSET_DROP, nsexec.Const(CapName(n), uint64(n))).
				Named("drop ", CapName(n)).
				Allow("a kernel that doesn't know this capability grants it to nobody", unix.EINVAL))
		}
	}
	return p
}

func (c *compiler) idSteps() nsexec.Program {
	var p nsexec.Program
	u := c.user
	if !c.opts.KeepGroups && c.maps.Setgroups != "deny" {
		p = append(p, nsexec.Setgroups(u.AdditionalGids).Named("supplementary groups").
			Because("the caller's would reach what his groups can reach on the host"))
	}
	if c.changesUser() {
		p = append(p, nsexec.Setresgid(u.GID).Named("become gid ", strconv.Itoa(int(u.GID))), nsexec.Setresuid(u.UID).Named("become uid ", strconv.Itoa(int(u.UID))))
	}
	return p
}

func (c *compiler) capabilitySteps() nsexec.Program {
	caps := c.caps()
	effective, _ := CapMask(caps.Effective)
	permitted, _ := CapMask(caps.Permitted)
	inheritable, _ := CapMask(caps.Inheritable)
	ambient, _ := CapMask(caps.Ambient)
	inheritable |= ambient & permitted // raising one demands both (capabilities(7))
	p := nsexec.Program{nsexec.Capset(effective, permitted, inheritable).Named("capabilities").
		Because("what the program may do inside its own user namespace, and nowhere else")}
	for n := range len(capabilityNames) {
		if ambient&permitted&(1<<n) != 0 {
			p = append(p, nsexec.Prctl("PR_CAP_AMBIENT", unix.PR_CAP_AMBIENT, nsexec.Const("PR_CAP_AMBIENT_RAISE", unix.PR_CAP_AMBIENT_RAISE),
				nsexec.Const(CapName(n), uint64(n)), nsexec.Int(0), nsexec.Int(0)).Named("ambient ", CapName(n)))
		}
	}
	return p
}

// lastSteps leave the program the environment it is to find.
func (c *compiler) lastSteps() nsexec.Program {
	p := nsexec.Program{}
	if c.dropsDumpable() {
		p = append(p, c.pdeathsig())
	}
	p = append(p, nsexec.CheckLifeline(c.lifeline())...)
	if cwd := c.spec.Process.Cwd; cwd != "" && cwd != "/" {
		p = append(p,
			nsexec.Openat2(nsexec.AtCWD(), cwd, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_MAGICLINKS).As("cwd").
				Named("find the working directory").
				Because("no link of /proc may lead it out of the container (CVE-2024-21626)"),
			nsexec.Fchdir(nsexec.Slot("cwd")).Named("enter the working directory"))
	}
	umask := uint32(0o022)
	if u := c.user.Umask; u != nil {
		umask = *u
	}
	return append(p, nsexec.Umask(umask).Named("umask"))
}

// limitSteps: what the spec asks for, and else what the launcher was started with.
func (c *compiler) limitSteps() nsexec.Program {
	limits := map[string]Limit{"RLIMIT_CORE": c.facts.Limits["RLIMIT_CORE"], "RLIMIT_NOFILE": c.facts.Limits["RLIMIT_NOFILE"]}
	order := []string{"RLIMIT_CORE", "RLIMIT_NOFILE"}
	for _, l := range c.spec.Process.Rlimits {
		if _, listed := limits[l.Type]; !listed {
			order = append(order, l.Type)
		}
		limits[l.Type] = Limit{l.Soft, l.Hard}
	}
	var p nsexec.Program
	for _, name := range order {
		n, _ := RlimitNumber(name)
		p = append(p, nsexec.Setrlimit(name, uint64(n), limits[name].Soft, limits[name].Hard).
			Named(name).Because(limitReason(name)))
	}
	return p
}

func limitReason(name string) string {
	switch name {
	case "RLIMIT_CORE":
		return "the guard above ends here"
	case "RLIMIT_NOFILE":
		return "the Go runtime raised the launcher's soft limit; the container gets the original"
	}
	return fmt.Sprintf("process.rlimits asks for %s", name)
}
