package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"wolffia.dev/userns"
)

// topic is one mechanism, told for a reader.
type topic struct{ name, text string }

func topics() []topic {
	return []topic{
		{"child", `The child (nsexec).
One clone3(2) with CLONE_VM makes the process and all its namespaces. It shares the launcher's memory, so
nothing is copied, however large the launcher is. It runs no Go code: fewer than a hundred instructions of
assembly take one step after the other from an array, make the system call, keep what it returned and when, and
stop at the first result that the step's policy doesn't accept. All its memory lies in one mapping outside Go's
heap. Signals are blocked around the call and every handler is reset (CLONE_CLEAR_SIGHAND). The kernel wakes the
launcher when the child lets go of the memory, at its execve or its death (CLONE_CHILD_CLEARTID). Until execve
the child and the launcher are one address space: that is why the child gets no fd it doesn't need, dumps no
core and dies with the launcher.
Read: clone(2), prctl(2), futex(2).`},
		{"userns", `User namespaces and their maps (userns).
A process in a new user namespace has every capability, over that namespace only, and no id until a map is
written to /proc/PID/uid_map and gid_map by someone outside. The kernel lets a process map its own id by itself,
if setgroups(2) is denied first. For more ids the set-uid programs newuidmap(1) and newgidmap(1) compare
/etc/subuid and /etc/subgid and write the map. wolffia runs both at once while the child goes on, and the child
waits at its gate "maps". A map has at most 340 lines in less than 4,096 bytes, and each line must lie inside
one line of the parent's map.
A namespace can be held by an fd without a process in it, for idmapped mounts or to be joined. --mechanism NAME
prints the calls that make one: vm, a child that shares our memory and is one system call long; fork, a copy of
us; ptrace, a program that is stopped before its first instruction; pool, some made in advance.
Read: user_namespaces(7), newuidmap(1), subuid(5).`},
		{"mounts", `Mounts (mount).
A mount namespace that belongs to another user namespace gets locked copies of all mounts: flags can't be taken
away and what a mount covers can't be uncovered. Each mount is made detached (fsopen(2), fsmount(2),
open_tree(2)), its target is opened below the new root with openat2(2) and RESOLVE_IN_ROOT, and move_mount(2)
joins the two by their fds: no path is looked up twice, so nothing can be exchanged in between. At the end
pivot_root(".", ".") exchanges the roots, the old one is detached, and a look at "/.." proves that nothing of it
is left.
A mount can have an id map of its own, taken from a user namespace (MOUNT_ATTR_IDMAP): files keep their owners on
disk and appear under others. It takes privilege over the user namespace that owns the file system, which only the
launcher can have, and a detached mount that never was attached. So the launcher clones the mount, makes the clone
private, idmaps it, and the child inherits it by its fd: the root of a container that root starts, and each
-v SRC:DST:idmap.
Read: mount_namespaces(7), mount_setattr(2), openat2(2), pivot_root(2).`},
		{"overlay", `Overlayfs without root (mount).
Linux 5.11 allows overlayfs in a user namespace; its marks are then kept as user.overlay.* attributes
(userxattr). A throw-away upper layer is a tmpfs in the container's own mount namespace, gone with it, and
volatile: nothing is synced. tmpfs has user attributes since Linux 6.6; before that the layer lies in a folder
of yours, removed at the end. Files whose owner has no id in the container (a view of this machine: the host's
root) can be hidden by new names at the top of the layer but not changed, moved or chmod-ed: EACCES, EPERM or
EOVERFLOW. "/" itself can't be a layer, as the mounts below it are locked; /etc and /var can.
Read: mount(8), user_namespaces(7), xattr(7).`},
		{"net", `Network (container, network).
The container gets a network namespace of its own with nothing but lo, which is up. The files of a network
namespace in /proc/net and /sys/class/net belong to whoever was root in its user namespace when it was made, and
to nobody for ever if there was none. So it is made after the maps, though it could be made while set-uid helpers
write them: whose those files are must not depend on which process was faster. --share net leaves the host's
network in place; then /sys is the host's too. Drivers that reach the outside aren't built yet.
Read: network_namespaces(7).`},
		{"exe", `/proc/self/exe and the launcher's binary (CVE-2019-5736).
Until execve, /proc/self/exe of the child is the launcher's own binary. A program whose #! line or loader leads
there runs it inside the container. A container that may write that file could change what you run next on the
host. So wolffia looks first: when the ids of the container may write its binary (you built it in your home,
say), it copies the binary into a sealed memfd, which nobody can write, and executes that before anything else;
it makes a start take twice as long. A binary owned by root needs no copy, as no id of your containers is the host's root:
install it so (make install). A program that is itself a link into /proc is refused. A view of the binary is all
that is left to see, and it is no secret.
Read: memfd_create(2), fcntl(2) F_ADD_SEALS.`},
		{"signals", `Signals.
HUP, INT, QUIT, TERM, USR1, USR2, ALRM and CONT are passed on once each, through the pidfd. The container has a
session of its own, so ^C on the terminal reaches the launcher alone. The kernel drops a signal to the first
process of a pid namespace that has no handler for it; where the default action is to end the process, wolffia
ends it with SIGKILL and reports the signal that was meant: an ordinary program ends as it would outside.
abort(3) in the first process ends with SIGSEGV (139) and not SIGABRT (134), since that signal is dropped too.
If the launcher is killed, PR_SET_PDEATHSIG ends the container; a program that changes its ids loses that, and
then the keeper ends it: a small child of the launcher's that waits for its death and kills the container
through the pidfd.
Read: pid_namespaces(7), pidfd_send_signal(2).`},
	}
}

func topicNames() []string {
	var names []string
	for _, t := range topics() {
		names = append(names, t.name)
	}
	return names
}

func explainTopic(w io.Writer, name string) error {
	for _, t := range topics() {
		if t.name == name {
			_, err := fmt.Fprintln(w, t.text)
			return err
		}
	}
	return &usageError{fmt.Sprintf("--topic %s: one of %s", name, strings.Join(topicNames(), ", "))}
}

// explainMechanism prints one way to open a user namespace.
func explainMechanism(w io.Writer, name string) error {
	if !slices.Contains(userns.ExplainNames(), name) {
		return &usageError{fmt.Sprintf("--mechanism %s: one of %s", name, strings.Join(userns.ExplainNames(), ", "))}
	}
	facts, err := userns.Probe(userns.ProbeOptions{Mode: userns.Single})
	if err != nil {
		return err
	}
	return userns.Explain(w, name, facts.Privileged)
}
