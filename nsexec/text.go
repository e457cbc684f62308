package nsexec

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// String is the call as a person would write it in C:
//
//	root = fsmount(rootfs, FSMOUNT_CLOEXEC, 0)
func (s Step) String() string {
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = a.String()
	}
	call := s.Call.String() + "(" + strings.Join(args, ", ") + ")"
	if s.Save != "" {
		call = s.Save + " = " + call
	}
	return call + s.Policy.String()
}

// String is the policy as it stands behind a call; Must prints nothing.
func (p Policy) String() string {
	switch {
	case p.Exact:
		return " == " + ReturnText(p.Result)
	case len(p.Allowed) > 0:
		names := make([]string, len(p.Allowed))
		for i, e := range p.Allowed {
			names[i] = ErrnoName(e)
		}
		return " or " + strings.Join(names, ", ")
	}
	return ""
}

// String is the whole program, a line each, as golden tests compare it.
func (p Program) String() string {
	var b strings.Builder
	for i, s := range p {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, s)
	}
	return b.String()
}

// ReturnText prints a return value: a number, or the errno's name.
func ReturnText(ret int64) string {
	if isErrno(ret) {
		return ErrnoName(unix.Errno(-ret))
	}
	return strconv.FormatInt(ret, 10)
}

// ErrnoName is the constant's name, as in errno(3).
func ErrnoName(e unix.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(e))
}

// errnoText is the form used in error messages: "operation not permitted (EPERM)".
func errnoText(e unix.Errno) string { return e.Error() + " (" + ErrnoName(e) + ")" }
