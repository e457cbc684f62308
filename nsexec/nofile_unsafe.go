package nsexec

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OriginalNofile is RLIMIT_NOFILE as this process was started with. The Go
// runtime raises the soft limit to the hard one at start and keeps the old
// value to itself (golang/go#46279): a container must get the original.
//
// syscall.Exec restores the original before it calls execve(2). Called with an
// empty path, that fails with ENOENT, the limit can be read, and is raised
// again. The value is found once in a process, at the first call: for some µs the
// limit is low, and from then on the syscall package has forgotten the original,
// so that children of os/exec get the raised limit. Call it before goroutines
// that open many files run.
func OriginalNofile() (soft, hard uint64, err error) {
	original.once.Do(func() {
		var raised unix.Rlimit
		if original.err = prlimitNofile(nil, &raised); original.err != nil {
			return
		}
		syscall.Exec("", nil, nil)
		original.err = prlimitNofile(&raised, &original.limit)
	})
	return original.limit.Cur, original.limit.Max, original.err
}

var original struct {
	once  sync.Once
	limit unix.Rlimit
	err   error
}

// prlimitNofile is prlimit(2) of this process, RLIMIT_NOFILE.
func prlimitNofile(new, old *unix.Rlimit) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(new)), uintptr(unsafe.Pointer(old)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
