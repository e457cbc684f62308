// Package network answers one question: whom can the container reach? So far
// nobody but itself: a network namespace of its own with the loopback interface
// up. Drivers that reach the outside will stand beside it.
//
// # Theory of operation
//
// The namespace is made by the child with unshare(2), not by clone3: it takes
// longer than all the others together, and the launcher works on meanwhile.
//
// When, isn't free. unshare(2) doesn't need the maps, so it could overlap with
// the helpers that write them. But the files of a network namespace in /proc/net
// and /sys/class/net get the ids that its user namespace's root has at that
// moment: before the maps they belong to nobody for ever, and the container's
// root can neither read /proc/net/ip_tables_names nor write
// /sys/class/net/lo/mtu. Beside the helpers the owner would be now this, now
// that, as the two processes are scheduled. So it is made after the maps, always.
package network

import (
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// None is a namespace with nothing but lo. lo is up, as 127.0.0.1 and ::1 work
// only then (netdevice(7), SIOCSIFFLAGS; CAP_NET_ADMIN over the namespace,
// which the child has).
func None() nsexec.Program {
	return nsexec.Program{
		nsexec.Unshare(unix.CLONE_NEWNET).Named("new network namespace").
			Because("after the maps: /proc/net and /sys/class/net get the container's root as their owner"),
		nsexec.Socket("AF_INET", "SOCK_DGRAM", unix.AF_INET, unix.SOCK_DGRAM).As("inet").Named("a socket to configure with"),
		nsexec.InterfaceUp(nsexec.Slot("inet"), "lo").Named("lo up").Because("127.0.0.1 works only on a loopback that is up"),
	}
}
