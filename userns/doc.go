// Package userns answers "who am I?": which user and group ids exist in this user namespace, which of them the
// caller may hand on to a new one, and who has to write them into the new namespace's maps. It also opens user
// namespaces as fds, with given maps and no process in them.
//
// # Theory of operation
//
// A new user namespace (clone3 with CLONE_NEWUSER, user_namespaces(7)) starts without ids: every file and process
// belongs to the overflow id 65534 until somebody writes /proc/PID/uid_map and /proc/PID/gid_map, each once. A
// map's lines say "ID-inside ID-outside length", and outside means the namespace of the process that opened the
// file. The writer is the parent, which stays outside and holds the child at a gate meanwhile:
//
//   - A writer with CAP_SETUID and CAP_SETGID in the parent namespace (root) writes any ids that exist there.
//     Mapping the parent's uid 0 takes CAP_SETFCAP as well (5.12).
//   - A writer without them may write one line of length one, its own effective id, if it made the namespace; and
//     for gid_map only after "deny" went to /proc/PID/setgroups (3.19), so that nobody sheds a group that was meant
//     to shut him out.
//   - For more, newuidmap(1) and newgidmap(1), which carry that privilege (set-uid root or a file capability),
//     write what /etc/subuid and /etc/subgid (subuid(5)), or the directory behind getsubids(1), delegate to the
//     caller.
//
// The kernel refuses with one errno, EPERM or EINVAL, whatever was wrong. So everything is decided before a child
// exists, in two phases:
//
//  1. [Probe] reads a handful of files and returns [Facts]. It writes nothing and, but for getsubids where the
//     files can't answer, starts nothing.
//  2. [PlanMaps] is pure: a [Request] and [Facts] in, a [Mapping] or a typed [*PlanError] out. It must not look at
//     the machine, so that a plan for a saved Facts file is the plan of that machine.
//
// A container's map is this package's to plan and package nsexec's to write: nothing here forks the container.
//
// Every extent is split where it crosses an extent of our own namespace's map ([IDMap.SplitAt]): the kernel
// translates line by line and answers EPERM to a line that spans two, although each of its ids exists. The kernel's
// limits (340 lines since 4.15, 5 before; less than one page of text) hold after the splitting.
//
// What is never done silently: fewer ids than asked for, a single id where no range or helper is to be had, a helper
// passed over. Each is an error with a remedy or a line in Notes.
//
// # A namespace as an fd
//
// An idmapped mount, or a child that is to join, needs a user namespace that has maps and no process. [Open] makes
// one, an [Opener] many: a child that does nothing is made in it, its uid_map, gid_map and setgroups are opened, its
// namespace is taken as an fd, it is killed, and the maps are written through the open files, which hold the
// namespace when the child is dead. Maps that newuidmap writes come before the kill, for it goes by a living pid.
//
// The child is made by one of three mechanisms ([Using]), each with its theory at the head of its file: [VM] shares
// our memory and is one system call long (vm.go), [Fork] is a copy of us (fork.go), [Ptrace] a program that is
// stopped before its first instruction (ptrace.go). The default is the first that works here; the [Report] tells
// which that was and why not another. [Explain] prints their steps and makes none of them.
//
// Who needs many, or many at once, takes [Opener.OpenRaw] and [Opener.OpenMany], which allocate nothing; who needs one
// at the cost of writing its maps, a [Pool] of namespaces made in advance; who needs any namespace with these maps, for
// an idmapped mount, a [Cache], which gives the same fd for the same maps.
//
// From an fd, [Parent], [OwnerUID], [ID] and [ReadMaps] tell what the kernel knows of the namespace, and [Enter] is a
// child's step into it. Until [Opener.Settle] the last child, dying, shares our memory: settle before somebody whom
// you don't trust gets into a new namespace ([Open] and [Opener.Close] do).
package userns
