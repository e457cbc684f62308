package nsexec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// childInfo is siginfo_t as waitid(2) fills it on 64-bit machines.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// waitid reaps one child (EAGAIN: with WNOHANG, it still runs). __WALL includes one whose exit_signal is 0.
func waitid(idType, id, options int) (ExitStatus, error) {
	var info childInfo
	for {
		err := unix.Waitid(idType, id, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WALL|options, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return ExitStatus{}, err
		}
		break
	}
	if info.pid == 0 { // WNOHANG, and nothing has ended
		return ExitStatus{}, unix.EAGAIN
	}
	const cldExited, cldDumped = 1, 3 // CLD_EXITED, CLD_DUMPED (sigaction(2))
	if info.code == cldExited {
		return ExitStatus{Code: int(info.status)}, nil
	}
	return ExitStatus{Signal: unix.Signal(info.status), Core: info.code == cldDumped}, nil
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h, PIDFD_INFO_SIZE_VER0.
type pidfdInfo struct {
	mask, cgroup uint64
	ids          [11]uint32
	exitCode     int32
}

// exitInfo asks for the status of a process that was reaped already
// (ioctl PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15).
func exitInfo(pidfd int) (ExitStatus, error) {
	const getInfo, infoExit = 0xc040ff0b, 1 << 3 // PIDFD_GET_INFO, PIDFD_INFO_EXIT
	info := pidfdInfo{mask: infoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), getInfo, uintptr(unsafe.Pointer(&info)))
	switch {
	case errno != 0 || info.mask&infoExit == 0:
		return ExitStatus{}, ErrDone
	case unix.WaitStatus(info.exitCode).Signaled():
		status := unix.WaitStatus(info.exitCode)
		return ExitStatus{Signal: status.Signal(), Core: status.CoreDump()}, nil
	}
	return ExitStatus{Code: unix.WaitStatus(info.exitCode).ExitStatus()}, nil
}
