package mount

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openTreeAttr is open_tree_attr(2), Linux 6.15, for which golang.org/x/sys/unix has the number and no function:
// open_tree(2) and mount_setattr(2) in one call, so that no mount is ever there without its attributes.
func openTreeAttr(path string, flags uint, attr *unix.MountAttr) (int, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	dir := unix.AT_FDCWD
	fd, _, errno := unix.Syscall6(unix.SYS_OPEN_TREE_ATTR, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(flags),
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	runtime.KeepAlive(attr)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
