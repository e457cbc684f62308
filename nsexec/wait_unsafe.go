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
