package userns

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// What an fd of a user namespace tells, and how to enter one (ioctl_nsfs(2), setns(2)).

// NamespaceError is a question that the kernel didn't answer for this fd. It unwraps to the errno.
type NamespaceError struct {
	Call  string
	Cause string
	Errno unix.Errno
}

func (e *NamespaceError) Error() string {
	text := fmt.Sprintf("userns: %s: %s (%s)", e.Call, e.Errno, nsexec.ErrnoName(e.Errno))
	if e.Cause != "" {
		text += "\n  " + e.Cause
	}
	return text
}

func (e *NamespaceError) Unwrap() error { return e.Errno }

func namespaceError(call string, err error, causes map[unix.Errno]string) error {
	errno, ok := err.(unix.Errno)
	if !ok {
		return err
	}
	return &NamespaceError{call, causes[errno], errno}
}

const notNamespace = "this fd isn't one of a namespace (open /proc/PID/ns/user)"

// Parent is the user namespace in which the namespace was made (NS_GET_PARENT, Linux 4.9). EPERM: it lies outside our
// own, so that of our own namespace can't be had. The file is the caller's.
func Parent(fd int) (*os.File, error) {
	parent, err := ioctlFD(fd, unix.NS_GET_PARENT)
	if err != nil {
		return nil, namespaceError("ioctl(NS_GET_PARENT)", err, map[unix.Errno]string{
			unix.EPERM:  "the parent lies outside our own user namespace, or this is the first one of all",
			unix.EINVAL: "this kind of namespace has no parent; a user namespace has one",
			unix.ENOTTY: notNamespace,
		})
	}
	return newFile(parent), nil
}

// OwnerUID is the user who made the namespace and so has every capability over it, as an id of our own namespace, or
// 65534 where he has none there (NS_GET_OWNER_UID, Linux 4.11).
func OwnerUID(fd int) (uint32, error) {
	uid, err := ioctlUID(fd, unix.NS_GET_OWNER_UID)
	if err != nil {
		return 0, namespaceError("ioctl(NS_GET_OWNER_UID)", err, map[unix.Errno]string{
			unix.EINVAL: "this is a namespace of another kind: only a user namespace has an owner",
			unix.ENOTTY: notNamespace,
		})
	}
	return uid, nil
}

// ID is what identifies the namespace while it exists, the inode in "user:[4026531837]" (namespaces(7)).
func ID(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, namespaceError("fstat", err, nil)
	}
	return st.Ino, nil
}

// Enter is the step that takes a child into the namespace in fd (setns(2), Linux 3.8). It needs CAP_SYS_ADMIN there,
// which the namespace's maker has, and gives every capability in it. EINVAL: the child is in it already. A program
// with this step must run in a child with memory of its own ([nsexec.RunPrivate]).
func Enter(fd nsexec.Arg) nsexec.Step {
	return nsexec.Setns(fd, unix.CLONE_NEWUSER).Named("enter the user namespace").
		Because("from here on every id and capability is the namespace's")
}

// ReadMaps tells which maps are in force in the namespace, from inside: a child with a copy of our memory enters it
// and opens its /proc/self/uid_map and gid_map. The outside ids are ids of the namespace's parent. It needs what
// [Enter] needs, and a /proc of our pid namespace; its cost grows with our heap.
func ReadMaps(ctx context.Context, fd int) (uid, gid IDMap, err error) {
	const rdonly = unix.O_RDONLY | unix.O_CLOEXEC
	results, err := nsexec.RunPrivate(ctx, nsexec.Program{
		Enter(nsexec.Slot("ns")),
		nsexec.Openat(nsexec.AtCWD(), "/proc/self/uid_map", rdonly, 0).Named("open uid_map"),
		nsexec.Openat(nsexec.AtCWD(), "/proc/self/gid_map", rdonly, 0).Named("open gid_map"),
	}, map[string]int{"ns": fd})
	if err != nil && len(results) == 0 {
		return nil, nil, err
	}
	var errs []error
	for i, m := range []*IDMap{&uid, &gid} {
		r := results[1+i]
		if !r.Ran || r.Ret < 0 {
			continue // err tells
		}
		text, err := readAll(int(r.Ret))
		errs = append(errs, err, unix.Close(int(r.Ret)))
		if len(text) > 0 {
			*m, err = ParseIDMap(string(text))
			errs = append(errs, err)
		}
	}
	return uid, gid, errors.Join(append(errs, err)...)
}
