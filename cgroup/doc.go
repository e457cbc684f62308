// Package cgroup answers one question: how much may the container use? A limit
// that is asked for is in force and was read back from the kernel, or the
// container doesn't start and the error says which link of the delegation chain
// is missing and which command mends it (cgroups(7), and the kernel's
// Documentation/admin-guide/cgroup-v2.rst).
//
// # What happens, in which order
//
//	Limits    what is asked for, from flags or from a runtime-spec
//	Probe     what stands at /sys/fs/cgroup and where we are in it: Facts
//	Compile   Limits + Facts → Plan: where the container's cgroup is made, by which
//	          steps, and what can't be in force. Pure: no system call
//	Create    executes the steps: a [Group], with its [Ledger]
//	          clone3 with CLONE_INTO_CGROUP, or Attach while the child waits at a gate
//	Settle    plan and ledger → go on, warn, or refuse. Pure
//	Certify   how it ended, and whose limit was it. Pure
//	Remove    the folders, and what was done to the launcher is undone
//
// Who asks for no limit needs none of it: nothing here is touched then.
//
// # Placement
//
// A cgroup can be made where somebody gave us the folder: that is delegation.
// Candidates are tried in this order, and the first that fits is taken:
//
//  1. Our own cgroup. A limit that somebody put on us holds for the container too.
//  2. A transient scope from systemd's manager: the user's, or the system's for
//     root. Only the manager may move a process out of a login session.
//  3. A cgroup above our own that we may write, unless one of those between
//     carries a limit, which the container would escape.
//  4. Cgroup v1 hierarchies, each controller in its own, only below our own cgroup.
//
// A folder that the user names (Wish.Parent) is the only candidate then, and
// outer limits that stay behind become notes.
//
// # No process but the launcher is moved
//
// In cgroup v2 a cgroup with processes can't give controllers to its children
// (EBUSY, the rule of no internal processes). When the launcher itself is the
// only one in the way it moves into a leaf that it made, and back at the end.
// Other processes stay where they are, whatever the folder is called: moving
// them took them out of their limit (TracecatHQ/tracecat#3142).
//
// # Ownership and removal
//
// A folder's name carries the launcher's pid and the time, and the launcher holds
// a flock(2) on it. The kernel drops the lock when the launcher dies, however it
// dies: who gets the lock has the proof that the owner is dead. [Sweep] removes
// such folders, if they are empty, and nothing else.
//
// # What it must not do
//
//   - Write outside of the folders that it made, but for cgroup.subtree_control
//     of their parent and the launcher's own move.
//   - Signal by number: a process is opened by pidfd and looked at again first.
//   - Wait by polling: the kernel tells of an OOM, of a freeze and of the last
//     process's end by events on the files (cgroup v2), or by an eventfd (v1).
//     rmdir(2) alone is tried again, a bounded number of times.
package cgroup
