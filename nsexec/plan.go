package nsexec

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Plan is a whole start: what the launcher does outside (Host) and what the
// child does inside (Child), tied by gates and by the slots that the host lane
// fills for the child.
type Plan struct {
	Host  []HostStep `json:"host"`
	Child Program    `json:"child"`
	Notes []string   `json:"notes,omitempty"` // every fallback and deviation, for a person

	// DropsDumpable tells that the child's credential steps clear the dumpable
	// flag of the memory it shares with us (commit_creds clears it when the
	// kernel-side uid or gid changes). Such a start has the gate
	// GateCredentials before them, and ends with OpDumpable.
	DropsDumpable bool `json:"drops_dumpable,omitempty"`

	// OpenUserns makes the namespaces of OpUserns steps; package userns knows how. A
	// plan without such a step needs none.
	OpenUserns UsernsOpener `json:"-"`

	// Cgroup does the OpCgroup steps, and gives the folder of a clone into a cgroup;
	// package cgroup knows how. A plan without either needs none.
	Cgroup Cgroup `json:"-"`

	// Network does the OpNetwork and OpReady steps. A plan without them needs none, and
	// no plan of package container has them yet: its only network is package network's.
	Network Network `json:"-"`

	// Fault, if not nil, makes one step fail. For tests.
	Fault *Fault `json:"fault,omitempty"`
}

// A Cgroup makes the child's control group, step by step.
type Cgroup interface {
	// Do makes the cgroup's own step number n.
	Do(ctx context.Context, n int) error
	// FD is the cgroup v2 folder for CLONE_INTO_CGROUP, lent, or -1.
	FD() int
	// Move puts a child there that couldn't be born in it, and gives the note for
	// the report. The child is on its way to its first gate.
	Move(child int) (note string, err error)
}

// A Network is a process of its own that gives the child's network namespace its
// network, from outside. A start that fails kills the child and tells the Network
// nothing: it has to end by itself when the child does.
type Network interface {
	// Start executes it beside the child. On handover, which is lent, it receives what
	// the child made for it inside the namespace.
	Start(ctx context.Context, handover int, child *Process) error
	// Ready waits until the network is there, or for the reason why it isn't.
	Ready(ctx context.Context) error
}

// A UsernsOpener makes a user namespace with these maps, written as for
// /proc/PID/uid_map and gid_map, and gives an fd of it away, close-on-exec.
type UsernsOpener func(ctx context.Context, uidMap, gidMap string) (fd int, err error)

// Gates, in the order in which a child can meet them.
const (
	GateMaps        = "maps"        // the id maps are written
	GateNetwork     = "network"     // the network is there
	GateCredentials = "credentials" // no other start needs our dumpable flag now
)

// Lifeline is the slot of the pipe's read end: the child reads one byte from
// it for each gate, and end of file when the launcher is gone.
const Lifeline = "lifeline"

// Handover is the slot of the child's end of the socket on which it hands fds to
// the Network.
const Handover = "handover"

// ChildPID stands for the child's pid in host steps' paths and arguments.
const ChildPID = "CHILD"

// HostOp is what one host step does.
type HostOp string

const (
	OpPipe     HostOp = "pipe"     // make the lifeline
	OpOpenTree HostOp = "opentree" // clone the mount at Path into slot Save; Flags: AT_RECURSIVE
	OpUserns   HostOp = "userns"   // make a user namespace with UIDMap and GIDMap, an fd of it into slot Save
	OpCgroup   HostOp = "cgroup"   // step number Number of the child's control group; Data prints it
	OpSocket   HostOp = "socket"   // make the socket pair of Handover
	OpNetwork  HostOp = "network"  // start the Network: the program Path; Data tells what it is asked for
	OpReady    HostOp = "ready"    // wait until the Network is there
	OpClone    HostOp = "clone"    // make the child, with clone flags Flags; CLONE_INTO_CGROUP: in Plan.Cgroup
	OpWrite    HostOp = "write"    // write Data to Path
	OpExec     HostOp = "exec"     // start the program Argv, without waiting
	OpJoin     HostOp = "join"     // wait for every program started by OpExec
	OpIDMap    HostOp = "idmap"    // idmap the mount in slot Save with the namespace in slot Userns, else the child's; Flags: AT_RECURSIVE
	OpGate     HostOp = "gate"     // open the gate named Data
	OpKeep     HostOp = "keep"     // make the keeper, which kills the child if we die
	OpRelease  HostOp = "release"  // wait until the child executed its program, or died
	OpDumpable HostOp = "dumpable" // set our dumpable flag again

	// OpPropagation changes the propagation of the mount in slot Save and of all below it to Flags, MS_PRIVATE or
	// MS_SLAVE. The clone of a shared mount is its peer, also detached: what the child mounted in it would appear on
	// the host (mount_namespaces(7), "Shared subtrees").
	OpPropagation HostOp = "propagation"
)

// A HostStep is one thing the launcher itself does. It is data like a Step, but
// executed in Go: it may start a set-uid program or wait for another process.
type HostStep struct {
	Name   string   `json:"name"`
	Op     HostOp   `json:"op"`
	Path   string   `json:"path,omitempty"`
	Data   string   `json:"data,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Flags  uint64   `json:"flags,omitempty"`
	Number int      `json:"number,omitempty"` // OpCgroup
	Save   string   `json:"save,omitempty"`
	UIDMap string   `json:"uid_map,omitempty"`
	GIDMap string   `json:"gid_map,omitempty"`
	Userns string   `json:"userns,omitempty"`
	Why    string   `json:"why,omitempty"`
	Man    string   `json:"man,omitempty"`
}

// forcedCloneFlags are those that every child of this package has.
const forcedCloneFlags = unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CHILD_CLEARTID | unix.CLONE_CLEAR_SIGHAND

// String is the step as a call.
func (h HostStep) String() string {
	switch h.Op {
	case OpPipe:
		return Lifeline + " = pipe2(O_CLOEXEC)"
	case OpSocket:
		return Handover + " = socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0)"
	case OpNetwork:
		return "execve(" + strconv.Quote(h.Path) + ") in a child of its own, asked for " + h.Data
	case OpReady:
		return "recvmsg: wait for the answer of " + h.Data
	case OpOpenTree:
		return h.Save + " = open_tree(AT_FDCWD, " + strconv.Quote(h.Path) + ", " + OpenTreeFlags.Text(cloneTree|h.Flags) + ")"
	case OpUserns:
		return h.Save + " = clone3({flags=CLONE_NEWUSER, …}) in a child that does nothing; write(uid_map, " + strconv.Quote(h.UIDMap) +
			"); write(gid_map, " + strconv.Quote(h.GIDMap) + ")"
	case OpPropagation:
		return "mount_setattr(" + h.Save + ", \"\", AT_RECURSIVE|AT_EMPTY_PATH, {propagation=" + MountFlags.Text(h.Flags) + "})"
	case OpClone:
		return ChildPID + " = clone3({flags=" + CloneFlags.Text(h.Flags|forcedCloneFlags) + ", exit_signal=0})"
	case OpCgroup:
		return h.Data
	case OpWrite:
		return "write(" + strconv.Quote(h.Path) + ", " + strconv.Quote(h.Data) + ")"
	case OpExec:
		return "execve(" + strconv.Quote(h.Path) + ", " + quoted(h.Argv) + ") in a child of its own"
	case OpJoin:
		return "waitid(P_PIDFD, …) for " + h.Data
	case OpIDMap:
		return "mount_setattr(" + h.Save + ", \"\", " + AtFlags.Text(unix.AT_EMPTY_PATH|h.Flags) + ", {attr_set=MOUNT_ATTR_IDMAP, userns_fd=" + h.usernsText() + "})"
	case OpGate:
		return "write(" + Lifeline + ", 1) opens the gate " + strconv.Quote(h.Data)
	case OpKeep:
		return "clone3({flags=" + CloneFlags.Text(forcedCloneFlags) + "}): ppoll([pipe, " + ChildPID + "]) until we or it are dead, then pidfd_send_signal(" + ChildPID + ", SIGKILL)"
	case OpRelease:
		return "futex(FUTEX_WAIT) until the child's execve or exit"
	case OpDumpable:
		return "prctl(PR_SET_DUMPABLE, 1)"
	}
	return string(h.Op)
}

func (h HostStep) usernsText() string {
	if h.Userns != "" {
		return h.Userns
	}
	return "/proc/" + ChildPID + "/ns/user"
}

// String is the plan as golden tests compare it: both lanes, without reasons.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString("host\n")
	for i, h := range p.Host {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, h)
	}
	b.WriteString("child\n" + p.Child.String())
	if p.Fault != nil {
		b.WriteString(p.Fault.String() + "\n")
	}
	for _, n := range p.Notes {
		b.WriteString("note: " + n + "\n")
	}
	return b.String()
}
