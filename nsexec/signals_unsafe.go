package nsexec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSigaction is struct sigaction as rt_sigaction(2) itself has it, on
// amd64 and arm64.
type kernelSigaction struct{ handler, flags, restorer, mask uint64 }

// handledSignals are those for which this program, the Go runtime above all, has a handler.
func handledSignals() []unix.Signal {
	var list []unix.Signal
	const sigIgn, nsig = 1, 64
	for sig := unix.Signal(1); sig <= nsig; sig++ {
		var old kernelSigaction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&old)), 8, 0, 0)
		if errno == 0 && old.handler > sigIgn {
			list = append(list, sig)
		}
	}
	return list
}
