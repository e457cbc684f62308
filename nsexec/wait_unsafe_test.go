package nsexec

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitAny is waitid(P_ALL) with __WALL.
func waitAny(options int) (pid int, err error) {
	var info childInfo
	err = unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WALL|options, nil)
	return int(info.pid), err
}

// installFilter puts a seccomp filter above every thread of this process. calls
// is "name=ERRNO,…"; waitid is only refused with P_PIDFD.
func installFilter(calls string) error {
	prog, err := filterProgram(calls)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // both calls on one thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}
