package mount

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// # Idmapped mounts
//
// The only part of the package that acts. A mount can have an id map of its own: a file that belongs to id I on disk
// appears under the id that the map's user namespace gives I outside. Nothing is written: another mount of the same
// folder shows the same owners as ever. It is how files get other owners at once that chown(1) would need minutes
// for. The map goes both ways: what is made through the mount gets the id on disk that appears as its maker's.
//
// The kernel's conditions (can_idmap_mount() in fs/namespace.c), in its order: the namespace isn't the one that owns
// the file system (EINVAL); the mount isn't idmapped yet (EPERM); the file system's type allows it (EINVAL); we have
// CAP_SYS_ADMIN over the namespace that owns the file system (EPERM); the mount is detached and was never attached
// (EINVAL). All mounts of a tree are checked before one is changed.

// IDMapError is a mount that couldn't be idmapped. Nothing was changed and nothing is left. It unwraps to the errno.
type IDMapError struct {
	Path   string // "" if there was only an fd
	FSType string // as in mountinfo; "" if it can't be told
	Call   string
	Errno  unix.Errno
	Cause  string
	Remedy string
}

func (e *IDMapError) Error() string {
	text := "mount: idmap"
	if e.Path != "" {
		text += fmt.Sprintf(" %q", e.Path)
	}
	if e.FSType != "" {
		text += " (" + e.FSType + ")"
	}
	text += fmt.Sprintf(": %s: %s (%s)", e.Call, e.Errno, nsexec.ErrnoName(e.Errno))
	for _, line := range []string{e.Cause, e.Remedy} {
		if line != "" {
			text += "\n  " + line
		}
	}
	return text
}

func (e *IDMapError) Unwrap() error { return e.Errno }

// IDMapped makes a detached clone of the mount at path, beginning at path, that has the id map of the user namespace
// (an fd, lent). With recursive the clone has what is mounted below path too, and all of it is idmapped. The file is
// the caller's, for move_mount(2); closing it before that takes the clone away. The clone is private: what is mounted
// in it later doesn't appear elsewhere.
//
// It needs CAP_SYS_ADMIN over our mount namespace's owner, over the user namespace, and over the one that owns the
// file system. The error is an *IDMapError, and the mount at path is as it was. Linux 5.12; from 6.15 on it is one
// call, open_tree_attr(2), which also gives a new map to what is idmapped already.
func IDMapped(path string, userns int, recursive bool) (*os.File, error) {
	if fault := checkUserns(userns); fault != nil {
		fault.Path = path
		return nil, fault
	}
	fd, call, err := cloneIDMapped(path, userns, recursiveFlag(recursive))
	if err != nil {
		return nil, pathError(path, call, err, recursive)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func cloneIDMapped(path string, userns int, recursive uint) (fd int, call string, err error) {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	attr := idmapAttr(userns)
	fd, err = openTreeAttr(path, clone|recursive, &attr)
	// A filter that is older than the call may answer EPERM; what the kernel itself refuses, it refuses again below.
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, "open_tree_attr", err
	}
	if fd, err = unix.OpenTree(unix.AT_FDCWD, path, clone|recursive); err != nil {
		return -1, "open_tree", err
	}
	if err = setIDMap(fd, userns, recursive); err != nil {
		unix.Close(fd)
		return -1, setattrCall, err
	}
	return fd, "", nil
}

// IDMap gives a detached tree, an fd of open_tree(2) with OPEN_TREE_CLONE or of fsmount(2), the id map of the user
// namespace, and makes it private; with recursive all that is mounted below its top too. Both fds are lent. An fd of a
// mount that is attached is refused before the kernel is asked. The error is an *IDMapError. Linux 5.12.
func IDMap(tree, userns int, recursive bool) error {
	if fault := checkUserns(userns); fault != nil {
		return fault
	}
	if m, attached := mountOf(tree); attached {
		return &IDMapError{Path: m.at, FSType: m.fstype, Call: setattrCall, Errno: unix.EINVAL,
			Cause:  "this fd is no detached mount: it lies on the one that is attached at " + m.at + ", which others use",
			Remedy: "clone it first: IDMapped does, or open_tree(2) with OPEN_TREE_CLONE"}
	}
	err := setIDMap(tree, userns, recursiveFlag(recursive))
	if err == nil {
		return nil
	}
	fault := &IDMapError{FSType: fsTypeOf(tree), Call: setattrCall, Errno: errnoOf(err)}
	fault.Cause, fault.Remedy = WhyNotIDMapped([]Filesystem{{Type: fault.FSType}}, fault.Errno)
	return fault
}

const setattrCall = "mount_setattr(MOUNT_ATTR_IDMAP)"

func setIDMap(tree, userns int, recursive uint) error {
	attr := idmapAttr(userns)
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|recursive, &attr)
}

func idmapAttr(userns int) unix.MountAttr {
	return unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(userns)}
}

func recursiveFlag(recursive bool) uint {
	if recursive {
		return unix.AT_RECURSIVE
	}
	return 0
}

// checkUserns tells a wrong fd apart, for which the kernel's answer would be that of a wrong file system.
func checkUserns(fd int) *IDMapError {
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err == nil && kind == unix.CLONE_NEWUSER {
		return nil
	}
	if err == nil || err == unix.ENOTTY {
		err = unix.EINVAL
	}
	return &IDMapError{Call: "ioctl(NS_GET_NSTYPE)", Errno: errnoOf(err), Cause: "the id map has to come from an fd of a user namespace, and this is none",
		Remedy: "open one with wolffia.dev/userns: Open"}
}

// errnoOf: the calls of this file return nothing but errnos.
func errnoOf(err error) unix.Errno {
	errno, _ := err.(unix.Errno)
	return errno
}

// pathError explains a failure by what lies at the path, and below it.
func pathError(path, call string, err error, recursive bool) error {
	e := &IDMapError{Path: path, Call: call, Errno: errnoOf(err)}
	found, err := Filesystems(path)
	if err != nil {
		e.Cause = "the path can't be opened"
		return e
	}
	if !recursive {
		found = found[:1]
	}
	e.FSType = found[0].Type
	e.Cause, e.Remedy = WhyNotIDMapped(found, e.Errno)
	return e
}
