package nsexec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitAny is waitid(P_ALL) with __WALL.
func waitAny(options int) (pid int, err error) {
	var info childInfo
	err = unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WALL|options, nil)
	return int(info.pid), err
}
