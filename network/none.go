// Package network answers one question: whom can the container reach? So far
// nobody but itself: a network namespace of its own with the loopback interface
// up. Drivers that reach the outside will stand beside it.
//
// # Theory of operation
//
// The namespace is made by the child with unshare(2), not by clone3, and takes
// longer than all the others together: so the launcher doesn't wait for it and
// begins to write the id maps.
//
// When, is a choice. unshare(2) doesn't need the maps, so it can overlap with
// the helpers that write them. But the files of a network namespace in /proc/net
// and /sys/class/net get the ids that its user namespace's root has at that
// moment: before the maps they belong to nobody for ever, and the container's
// root can neither read /proc/net/ip_tables_names nor write
// /sys/class/net/lo/mtu. Who has no CAP_NET_ADMIN has no use for them. So it is
// made early when helpers write the maps and the container can't administer its
// network anyway, else late.
package network

import (
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Moment is when a network namespace is made, seen from the id maps.
type Moment bool

const (
	BeforeMaps Moment = true  // it overlaps with the helpers; some of its files belong to nobody
	AfterMaps  Moment = false // they belong to the container's root
)

func (m Moment) reason() string {
	if m == BeforeMaps {
		return "the helpers write the maps meanwhile; so files such as /proc/net/ip_tables_names belong to nobody, which without CAP_NET_ADMIN changes nothing"
	}
	return "after the maps: /proc/net and /sys/class/net get the container's root as their owner"
}

// None is a namespace with nothing but lo. lo is up, as 127.0.0.1 and ::1 work
// only then (netdevice(7), SIOCSIFFLAGS; CAP_NET_ADMIN over the namespace,
// which the child has).
func None(when Moment) nsexec.Program {
	return nsexec.Program{
		nsexec.Unshare(unix.CLONE_NEWNET).Named("new network namespace").
			Because(when.reason()),
		nsexec.Socket("AF_INET", "SOCK_DGRAM", unix.AF_INET, unix.SOCK_DGRAM).As("inet").Named("a socket to configure with"),
		nsexec.InterfaceUp(nsexec.Slot("inet"), "lo").Named("lo up").Because("127.0.0.1 works only on a loopback that is up"),
	}
}
