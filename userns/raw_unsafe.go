package userns

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The few calls that a namespace fd costs, without an allocation: paths are
// built on the stack, and nothing here keeps a pointer beyond its call.

// procPath is room for "/proc/PID/setgroups\0".
type procPath [40]byte

// openProc opens /proc/PID/NAME.
func openProc(pid int, name string, flags int) (int, error) {
	var path procPath
	n := copy(path[:], "/proc/")
	n += putDecimal(path[n:], pid)
	path[n] = '/'
	copy(path[n+1:len(path)-1], name)
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&path)), uintptr(flags|unix.O_CLOEXEC), 0, 0, 0) // AT_FDCWD is -100
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func putDecimal(to []byte, n int) int {
	var digits [20]byte
	i := len(digits)
	for ok := true; ok; ok = n > 0 {
		i--
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return copy(to, digits[i:])
}

// writeAll is one write(2): a map is taken whole or not at all.
func writeAll(fd int, text []byte) error {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(text))), uintptr(len(text)))
	switch {
	case errno != 0:
		return errno
	case int(n) != len(text):
		return unix.EIO
	}
	return nil
}

func closeFD(fd *int) {
	if *fd >= 0 {
		unix.RawSyscall(unix.SYS_CLOSE, uintptr(*fd), 0, 0)
		*fd = -1
	}
}

// ioctlFD is an ioctl(2) without argument that returns a new fd, close-on-exec.
func ioctlFD(fd int, request uintptr) (int, error) {
	r, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// ioctlUID is an ioctl(2) that fills a uid_t.
func ioctlUID(fd int, request uintptr) (uint32, error) {
	var uid uint32
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&uid)))
	if errno != 0 {
		return 0, errno
	}
	return uid, nil
}
