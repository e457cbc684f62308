// Package filter puts a seccomp filter above a test, as an outer container's
// would stand there. Only tests import it.
package filter

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are those that filters of outer sandboxes refuse.
var calls = map[string]uint32{"capset": unix.SYS_CAPSET, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
	"close_range": unix.SYS_CLOSE_RANGE, "fsconfig": unix.SYS_FSCONFIG, "fsetxattr": unix.SYS_FSETXATTR,
	"fsmount": unix.SYS_FSMOUNT, "fsopen": unix.SYS_FSOPEN, "ioctl": unix.SYS_IOCTL, "keyctl": unix.SYS_KEYCTL, "kill": unix.SYS_KILL,
	"mount": unix.SYS_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR, "move_mount": unix.SYS_MOVE_MOUNT,
	"open_tree": unix.SYS_OPEN_TREE, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "openat2": unix.SYS_OPENAT2,
	"pidfd_open": unix.SYS_PIDFD_OPEN, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "pipe2": unix.SYS_PIPE2,
	"pivot_root": unix.SYS_PIVOT_ROOT, "ptrace": unix.SYS_PTRACE, "sethostname": unix.SYS_SETHOSTNAME,
	"setsid": unix.SYS_SETSID, "umount2": unix.SYS_UMOUNT2, "unshare": unix.SYS_UNSHARE, "waitid": unix.SYS_WAITID}

var errnos = map[string]unix.Errno{"EINVAL": unix.EINVAL, "EIO": unix.EIO, "ENOTTY": unix.ENOTTY, "ENOSYS": unix.ENOSYS, "EPERM": unix.EPERM}

// Install has each named call answered with an errno, in every thread of this
// process and in its children: "clone3=ENOSYS,ptrace=EPERM". waitid is refused
// for a pidfd alone, and clone for all but threads. An ordinary user gets
// no_new_privs with it.
func Install(rules string) error {
	program, err := assemble(rules)
	if err != nil {
		return err
	}
	if os.Getuid() != 0 { // root may, and set-uid programs then still work below the filter
		runtime.LockOSThread() // prctl(2) concerns this thread; TSYNC below takes it to the others
		defer runtime.UnlockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
		}
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// assemble is the filter as BPF: one rule after the other, then ALLOW.
func assemble(rules string) ([]unix.SockFilter, error) {
	const nr, arg0 = 0, 16 // struct seccomp_data; arg0's low half, little-endian
	var program []unix.SockFilter
	for _, rule := range strings.Split(rules, ",") {
		name, text, _ := strings.Cut(rule, "=")
		call, errno := calls[name], errnos[text]
		if errno == 0 || call == 0 {
			return nil, fmt.Errorf("filter: bad rule %q", rule)
		}
		refuse := ret(unix.SECCOMP_RET_ERRNO | uint32(errno))
		switch name {
		case "waitid":
			program = append(program, load(nr), equal(call, 3), load(arg0), equal(unix.P_PIDFD, 1), refuse)
		case "clone":
			thread := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1}
			program = append(program, load(nr), equal(call, 3), load(arg0), thread, refuse)
		default:
			program = append(program, load(nr), equal(call, 1), refuse)
		}
	}
	return append(program, ret(unix.SECCOMP_RET_ALLOW)), nil
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// equal skips the next instructions where the loaded word is another one.
func equal(v uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jf: skip}
}

func ret(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
