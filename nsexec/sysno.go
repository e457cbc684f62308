package nsexec

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Sysno is a system call number of the architecture that this binary is for.
type Sysno uintptr

// sysnos lists the calls that programs use. Only calls that both amd64 and
// arm64 have may appear: no open, mkdir, dup2 or poll.
var sysnos = []struct {
	nr   Sysno
	name string
}{
	{unix.SYS_CAPSET, "capset"},
	{unix.SYS_CLONE3, "clone3"},
	{unix.SYS_CLOSE, "close"},
	{unix.SYS_CLOSE_RANGE, "close_range"},
	{unix.SYS_DUP, "dup"},
	{unix.SYS_DUP3, "dup3"},
	{unix.SYS_EXECVE, "execve"},
	{unix.SYS_EXIT_GROUP, "exit_group"},
	{unix.SYS_FACCESSAT, "faccessat"},
	{unix.SYS_FCHDIR, "fchdir"},
	{unix.SYS_FCHMODAT, "fchmodat"},
	{unix.SYS_FCNTL, "fcntl"},
	{unix.SYS_FSCONFIG, "fsconfig"},
	{unix.SYS_FSMOUNT, "fsmount"},
	{unix.SYS_FSOPEN, "fsopen"},
	{unix.SYS_FUTEX, "futex"},
	{unix.SYS_GETPID, "getpid"},
	{unix.SYS_GETPPID, "getppid"},
	{unix.SYS_GETUID, "getuid"},
	{unix.SYS_IOCTL, "ioctl"},
	{unix.SYS_KEYCTL, "keyctl"},
	{unix.SYS_KILL, "kill"},
	{unix.SYS_LSEEK, "lseek"},
	{unix.SYS_MKDIRAT, "mkdirat"},
	{unix.SYS_MKNODAT, "mknodat"},
	{unix.SYS_MOUNT, "mount"},
	{unix.SYS_MOUNT_SETATTR, "mount_setattr"},
	{unix.SYS_MOVE_MOUNT, "move_mount"},
	{unix.SYS_NANOSLEEP, "nanosleep"},
	{unix.SYS_OPENAT, "openat"},
	{unix.SYS_OPENAT2, "openat2"},
	{unix.SYS_OPEN_TREE, "open_tree"},
	{unix.SYS_PIDFD_SEND_SIGNAL, "pidfd_send_signal"},
	{unix.SYS_PIPE2, "pipe2"},
	{unix.SYS_PIVOT_ROOT, "pivot_root"},
	{unix.SYS_PPOLL, "ppoll"},
	{unix.SYS_PRCTL, "prctl"},
	{unix.SYS_PREAD64, "pread64"},
	{unix.SYS_PRLIMIT64, "prlimit64"},
	{unix.SYS_PTRACE, "ptrace"},
	{unix.SYS_READ, "read"},
	{unix.SYS_RT_SIGACTION, "rt_sigaction"},
	{unix.SYS_RT_SIGPROCMASK, "rt_sigprocmask"},
	{unix.SYS_SENDMSG, "sendmsg"},
	{unix.SYS_SETDOMAINNAME, "setdomainname"},
	{unix.SYS_SETGROUPS, "setgroups"},
	{unix.SYS_SETHOSTNAME, "sethostname"},
	{unix.SYS_SETNS, "setns"},
	{unix.SYS_SETRESGID, "setresgid"},
	{unix.SYS_SETRESUID, "setresuid"},
	{unix.SYS_SETPGID, "setpgid"},
	{unix.SYS_SETSID, "setsid"},
	{unix.SYS_SOCKET, "socket"},
	{unix.SYS_SYMLINKAT, "symlinkat"},
	{unix.SYS_UMASK, "umask"},
	{unix.SYS_UMOUNT2, "umount2"},
	{unix.SYS_UNLINKAT, "unlinkat"},
	{unix.SYS_UNSHARE, "unshare"},
	{unix.SYS_WAITID, "waitid"},
	{unix.SYS_WRITE, "write"},
}

// String is the call's name in the kernel's table.
func (n Sysno) String() string {
	for _, s := range sysnos {
		if s.nr == n {
			return s.name
		}
	}
	return "syscall_" + strconv.FormatUint(uint64(n), 10)
}
