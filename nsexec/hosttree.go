package nsexec

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The host lane's mounts: detached clones that only the launcher has the
// privilege to make or to idmap, and that the child inherits by their fds.

// HighFD keeps an inherited fd clear of the low numbers that a child's first
// steps move its fds to: it has this number or a greater one.
const HighFD = 128

// cloneTree are the flags of every OpOpenTree.
const cloneTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC

func (l *launch) openTree(h HostStep) (int64, error) {
	low, err := unix.OpenTree(unix.AT_FDCWD, h.Path, cloneTree|uint(h.Flags))
	if err != nil {
		return 0, err
	}
	fd, err := moveAbove(low)
	if err != nil {
		return 0, err
	}
	l.inputs[h.Save] = uint64(fd)
	return int64(fd), nil
}

// moveAbove gives a fd that the child inherits a number from HighFD on. The old
// one is closed in any case.
func moveAbove(low int) (int, error) {
	defer unix.Close(low)
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, HighFD)
	return fd, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
}

var errNoOpener = errors.New("the plan has no OpenUserns (this is a bug)")

// openUserns makes a namespace for idmapped mounts. Its maker opens files below
// the /proc of a child of ours: no other start may clear our dumpable flag meanwhile.
func (l *launch) openUserns(ctx context.Context, h HostStep) (int64, error) {
	if l.plan.OpenUserns == nil {
		return 0, errNoOpener
	}
	window := &l.spawner.dumpable
	if err := l.lock(ctx, window.rlock, window.runlock); err != nil {
		return 0, err
	}
	defer l.release()
	fd, err := l.plan.OpenUserns(ctx, h.UIDMap, h.GIDMap)
	if err != nil {
		return 0, err
	}
	l.inputs[h.Save] = uint64(fd)
	return int64(fd), nil
}

// idmap gives a detached mount the id map of a user namespace. The kernel
// checks the whole tree before it changes anything: after an error nothing is.
func (l *launch) idmap(h HostStep) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP}
	if h.Userns != "" {
		attr.Userns_fd = l.inputs[h.Userns]
		return setattr(l.inputs[h.Save], h.Flags, attr)
	}
	path := "/proc/" + strconv.Itoa(l.child.PID) + "/ns/user"
	userns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(userns)
	attr.Userns_fd = uint64(userns)
	return setattr(l.inputs[h.Save], h.Flags, attr)
}

func setattr(tree, flags uint64, attr unix.MountAttr) error {
	return unix.MountSetattr(int(tree), "", unix.AT_EMPTY_PATH|uint(flags), &attr)
}
