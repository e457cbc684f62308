package container

import (
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia.dev/network"
	"wolffia.dev/nsexec"
)

// lifelineFD is where the child keeps the lifeline: behind the fds that are
// passed on to the program. Those behind it are for inherited mounts.
func (c *compiler) lifelineFD() int { return 3 + c.opts.PreserveFDs }

// guardSteps protect the launcher, whose memory the child shares and whose
// death it must not survive.
func (c *compiler) guardSteps() nsexec.Program {
	p := nsexec.Program{
		nsexec.Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, nsexec.Const("SIGKILL", uint64(unix.SIGKILL))).
			Named("die with the launcher").
			Because("whatever kills the launcher, the container must not survive it"),
		nsexec.NoCore(c.facts.Limits["RLIMIT_CORE"].Hard).
			Because("until execve a core of this child would hold the launcher's memory; 1 byte and not 0, for where cores are piped to a program a limit of 0 counts for nothing (core(5))"),
		nsexec.Dup3(nsexec.Slot(nsexec.Lifeline), nsexec.Int(c.lifelineFD()), unix.O_CLOEXEC).
			Named("keep the lifeline").
			Allow("it has this number already", unix.EINVAL).
			Because("a pipe from the launcher: a byte opens a gate, end of file tells its death"),
	}
	p = append(p, c.keepTrees()...)
	return append(p,
		nsexec.CloseRange(uint32(c.lifelineFD()+1+len(c.trees)), ^uint32(0), 0).Named("close all other fds").
			Because("the child has a copy of the launcher's fd table, and none of it belongs in a container (CVE-2024-21626)"),
		nsexec.Setsid().Named("new session").
			Because("without a controlling terminal the program can't push characters into the caller's (TIOCSTI)"),
		nsexec.JoinSessionKeyring().Named("new session keyring").
			Allow("no keyrings here, an outer filter forbids them, or the user's quota of keys is used up: the result tells", unix.ENOSYS, unix.EPERM, unix.EDQUOT, unix.EACCES).
			Because("the caller's keys are not the container's (keyrings(7))"),
		nsexec.Umask(0).Named("umask 0").Because("the modes of the steps below are meant as they stand"),
	)
}

func (c *compiler) lifeline() nsexec.Arg { return nsexec.Int(c.lifelineFD()) }

// gateSteps wait for the id maps and become the setup's user.
func (c *compiler) gateSteps() nsexec.Program {
	p := nsexec.Program{
		nsexec.WaitGate(c.lifeline(), nsexec.GateMaps).
			Because("until the launcher has written the id maps, no id has a name here and no inode can be made (EOVERFLOW)"),
	}
	if !c.becomesRoot() && !c.becomesUser() {
		return p
	}
	uid, gid := c.setupIDs()
	return append(append(p, c.credentialGate()...),
		nsexec.Setresgid(gid).Named("become gid ", strconv.Itoa(int(gid)), " of the container"),
		nsexec.Setresuid(uid).Named("become uid ", strconv.Itoa(int(uid)), " of the container").
			Because("our own id isn't its root's, and what is made below shall belong to it"),
		c.pdeathsig(),
	)
}

// networkSteps make the network namespace, unless the host's is shared.
func (c *compiler) networkSteps() nsexec.Program {
	if !c.has(unix.CLONE_NEWNET) {
		return nil
	}
	return network.None()
}
