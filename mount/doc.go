// Package mount answers one question: what does the container see? It plans
// the mounts of a container as steps of its program and performs no system
// call itself, but for idmap.go, a library of its own: idmapped mounts for
// programs that make them without a container.
//
// # Theory of operation
//
// The child stands in a mount namespace of its own, a copy of ours whose mounts
// are locked: it can neither unmount one nor look below it, nor take away
// nosuid, nodev, noexec or read-only (mount_namespaces(7), "Restrictions on
// mount namespaces"). It has every capability, but only over its own user
// namespace. The steps come in this order:
//
//  1. Early, before the id maps exist: propagation is made private, and every
//     bind source is cloned with open_tree(2). No inode may be made yet: the
//     child's ids have no name in its namespace (EOVERFLOW).
//  2. The root is assembled and attached over "/", where it hides nothing that
//     the child still needs: paths from the old root still resolve there.
//  3. Each mount is made detached (fsopen, fsmount; or the early clone) and
//     attached by fd to a target that openat2(RESOLVE_IN_ROOT |
//     RESOLVE_NO_MAGICLINKS) resolved below the new root. A root that someone
//     else wrote can't lead a mount out of it (CVE-2021-30465 and its kind).
//     A fresh proc or sysfs needs a fully visible one in the old tree, so this
//     comes before that is gone.
//  4. Masks and read-only paths of /proc are resolved below the proc that was
//     just made, so they hit procfs and nothing else (CVE-2025-31133,
//     CVE-2025-52881).
//  5. pivot_root(".", "."), and the old root is detached.
//
// Attaching by fd leaves no window between looking and mounting. All fds are
// close-on-exec and die with the execve.
package mount
