package nsexec

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// FilteredError is a call that failed while a seccomp filter stands above this
// thread: an outer container's, most likely, which forbids what the kernel has.
type FilteredError struct {
	Call  string // "clone3(2)"
	Errno unix.Errno
}

func (e *FilteredError) Error() string {
	return fmt.Sprintf("nsexec: %s: %s\n  a seccomp filter stands above this process (Seccomp: 2 in /proc/self/status), as in an outer container, "+
		"and is the likely cause: allow %s there (Docker, Podman: --security-opt seccomp=PROFILE or unconfined)",
		e.Call, errnoText(e.Errno), e.Call)
}

func (e *FilteredError) Unwrap() error { return e.Errno }

// filtered types the error of a call: EPERM and ENOSYS under a filter are
// probably the filter's.
func filtered(call string, err error) error {
	errno, ok := err.(unix.Errno)
	if ok && (errno == unix.EPERM || errno == unix.ENOSYS) && underFilter() {
		return &FilteredError{Call: call, Errno: errno}
	}
	return os.NewSyscallError(strings.TrimSuffix(call, "(2)"), err)
}

// underFilter reads the thread's seccomp mode; 2 is SECCOMP_MODE_FILTER
// (prctl(2), PR_GET_SECCOMP).
func underFilter() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == 2
}
