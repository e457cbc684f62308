package nsexec

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// The vocabulary of programs: one constructor a system call, with the arguments
// of its manual page in their order. A step gets its name, reason, slot and
// policy by the methods of Step.

func call(nr Sysno, args ...Arg) Step { return Step{Call: nr, Args: args} }

// AtCWD is AT_FDCWD.
func AtCWD() Arg { return Const("AT_FDCWD", unix.AT_FDCWD&0xffffffff) }

// Prctl is prctl(option, args…); name is the option's constant.
func Prctl(name string, option uint64, args ...Arg) Step {
	return call(unix.SYS_PRCTL, append([]Arg{Const(name, option)}, args...)...)
}

// Unshare is unshare(2).
func Unshare(flags uint64) Step { return call(unix.SYS_UNSHARE, Flags(&CloneFlags, flags)) }

// Setns is setns(2).
func Setns(fd Arg, nstype uint64) Step {
	return call(unix.SYS_SETNS, fd, Flags(&CloneFlags, nstype))
}

// Mount is mount(2).
func Mount(source, target, fstype string, flags uint64, data string) Step {
	src, typ, opts := Str(source), Str(fstype), Str(data)
	if source == "" {
		src = Null()
	}
	if fstype == "" {
		typ = Null()
	}
	if data == "" {
		opts = Null()
	}
	return call(unix.SYS_MOUNT, src, Str(target), typ, Flags(&MountFlags, flags), opts)
}

// Umount2 is umount2(2), in umount(2)'s page.
func Umount2(target string, flags uint64) Step {
	s := call(unix.SYS_UMOUNT2, Str(target), Flags(&UmountFlags, flags))
	s.Man = "umount(2)"
	return s
}

// PivotRoot is pivot_root(2).
func PivotRoot(newRoot, putOld string) Step {
	return call(unix.SYS_PIVOT_ROOT, Str(newRoot), Str(putOld))
}

// Fsopen is fsopen(2), Linux 5.2.
func Fsopen(fstype string) Step {
	return call(unix.SYS_FSOPEN, Str(fstype), Flags(&FsopenFlags, unix.FSOPEN_CLOEXEC))
}

// FsconfigString is fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0).
func FsconfigString(fs Arg, key, value string) Step {
	return call(unix.SYS_FSCONFIG, fs, Const("FSCONFIG_SET_STRING", unix.FSCONFIG_SET_STRING), Str(key), Str(value), Int(0))
}

// FsconfigFlag is fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0).
func FsconfigFlag(fs Arg, key string) Step {
	return call(unix.SYS_FSCONFIG, fs, Const("FSCONFIG_SET_FLAG", unix.FSCONFIG_SET_FLAG), Str(key), Null(), Int(0))
}

// FsconfigCreate is fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0).
func FsconfigCreate(fs Arg) Step {
	return call(unix.SYS_FSCONFIG, fs, Const("FSCONFIG_CMD_CREATE", unix.FSCONFIG_CMD_CREATE), Null(), Null(), Int(0))
}

// Fsmount is fsmount(2), Linux 5.2.
func Fsmount(fs Arg, attrs uint64) Step {
	return call(unix.SYS_FSMOUNT, fs, Flags(&FsmountFlags, unix.FSMOUNT_CLOEXEC), Flags(&AttrFlags, attrs))
}

// OpenTree is open_tree(2), Linux 5.2.
func OpenTree(dir Arg, path string, flags uint64) Step {
	return call(unix.SYS_OPEN_TREE, dir, Str(path), Flags(&OpenTreeFlags, flags|unix.OPEN_TREE_CLOEXEC))
}

// MoveMount is move_mount(2), Linux 5.2: the mount itself (an fd), to a path below to.
func MoveMount(mount, to Arg, path string) Step {
	flags := uint64(unix.MOVE_MOUNT_F_EMPTY_PATH)
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	return call(unix.SYS_MOVE_MOUNT, mount, Str(""), to, Str(path), Flags(&MoveMountFlags, flags))
}

// MountAttr is struct mount_attr of mount_setattr(2).
type MountAttr struct{ Set, Clear, Propagation, UsernsFD uint64 }

// MountSetattr is mount_setattr(2), Linux 5.12, on the mount that dir is.
func MountSetattr(dir Arg, flags uint64, attr MountAttr) Step {
	return call(unix.SYS_MOUNT_SETATTR, dir, Str(""), Flags(&AtFlags, flags|unix.AT_EMPTY_PATH),
		Words(mountAttrText, attr.Set, attr.Clear, attr.Propagation, attr.UsernsFD), Int(32))
}

func mountAttrText(data []byte) string {
	text := "{attr_set=" + AttrFlags.Text(word(data, 0))
	if clear := word(data, 1); clear != 0 {
		text += ", attr_clr=" + AttrFlags.Text(clear)
	}
	if propagation := word(data, 2); propagation != 0 {
		text += ", propagation=" + MountFlags.Text(propagation)
	}
	return text + "}"
}

// Openat is openat(2).
func Openat(dir Arg, path string, flags uint64, mode uint32) Step {
	return call(unix.SYS_OPENAT, dir, Str(path), Flags(&OpenFlags, flags|unix.O_CLOEXEC), Mode(mode))
}

// Openat2 is openat2(2), Linux 5.6.
func Openat2(dir Arg, path string, flags, resolve uint64) Step {
	return call(unix.SYS_OPENAT2, dir, Str(path), Words(openHowText, flags|unix.O_CLOEXEC, 0, resolve), Int(24))
}

func openHowText(data []byte) string {
	return "{flags=" + OpenFlags.Text(word(data, 0)) + ", resolve=" + ResolveFlags.Text(word(data, 2)) + "}"
}

// Mkdirat is mkdirat(2).
func Mkdirat(dir Arg, path string, mode uint32) Step {
	return call(unix.SYS_MKDIRAT, dir, Str(path), Mode(mode))
}

// Mknodat is mknodat(2) for a regular file, the mount point of a file.
func Mknodat(dir Arg, path string, mode uint32) Step {
	return call(unix.SYS_MKNODAT, dir, Str(path), Const("S_IFREG|0"+strconv.FormatUint(uint64(mode), 8), uint64(unix.S_IFREG|mode)), Int(0))
}

// Symlinkat is symlinkat(2).
func Symlinkat(target string, dir Arg, path string) Step {
	return call(unix.SYS_SYMLINKAT, Str(target), dir, Str(path))
}

// Fchdir is fchdir(2), in chdir(2)'s page.
func Fchdir(fd Arg) Step {
	s := call(unix.SYS_FCHDIR, fd)
	s.Man = "chdir(2)"
	return s
}

// Close is close(2).
func Close(fd Arg) Step { return call(unix.SYS_CLOSE, fd) }

// Write is write(2).
func Write(fd Arg, data string) Step {
	return call(unix.SYS_WRITE, fd, Bytes(strconv.Quote(data), []byte(data)), Int(len(data)))
}

// CloseRange is close_range(2), Linux 5.9.
func CloseRange(first, last uint32, flags uint64) Step {
	end := Int(last)
	if last == ^uint32(0) {
		end = Const("~0", uint64(last))
	}
	return call(unix.SYS_CLOSE_RANGE, Int(first), end, Flags(&CloseRangeFlags, flags))
}

// Dup3 is dup3(2).
func Dup3(from, to Arg, flags uint64) Step {
	return call(unix.SYS_DUP3, from, to, Flags(&OpenFlags, flags))
}

// Sethostname is sethostname(2).
func Sethostname(name string) Step {
	return call(unix.SYS_SETHOSTNAME, Str(name), Int(len(name)))
}

// Setrlimit is prlimit(0, resource, {soft, hard}, NULL); name is the constant.
func Setrlimit(name string, resource, soft, hard uint64) Step {
	s := call(unix.SYS_PRLIMIT64, Int(0), Const(name, resource), Words(rlimitText, soft, hard), Null())
	s.Man = "prlimit(2)"
	return s
}

// NoCore keeps the child from dumping core, which would hold the memory that it
// shares: until execve it has a soft RLIMIT_CORE of 1 byte. Not 0: where cores
// are piped to a program that limit isn't heeded, and 1 is (core(5)). Under a
// hard limit of 0 there is no 1 to be had.
func NoCore(hard uint64) Step {
	return Setrlimit("RLIMIT_CORE", unix.RLIMIT_CORE, min(1, hard), hard).Named("no core dump")
}

func rlimitText(data []byte) string {
	return "{rlim_cur=" + limitText(word(data, 0)) + ", rlim_max=" + limitText(word(data, 1)) + "}"
}

func limitText(v uint64) string {
	if v == unix.RLIM_INFINITY {
		return "RLIM_INFINITY"
	}
	return strconv.FormatUint(v, 10)
}

// Setgroups is setgroups(2).
func Setgroups(groups []uint32) Step {
	data := make([]byte, 0, 4*len(groups))
	for _, g := range groups {
		data = binary.NativeEndian.AppendUint32(data, g)
	}
	return call(unix.SYS_SETGROUPS, Int(len(groups)), Bytes(fmt.Sprint(groups), data))
}

// Setresgid is setresgid(2), with one id three times.
func Setresgid(id uint32) Step { return call(unix.SYS_SETRESGID, Int(id), Int(id), Int(id)) }

// Setresuid is setresuid(2), with one id three times.
func Setresuid(id uint32) Step { return call(unix.SYS_SETRESUID, Int(id), Int(id), Int(id)) }

// Capset is capset(2), _LINUX_CAPABILITY_VERSION_3, of the child itself.
func Capset(effective, permitted, inheritable uint64) Step {
	const version3 = 0x20080522
	var head, sets []byte
	head = binary.NativeEndian.AppendUint32(head, version3)
	head = binary.NativeEndian.AppendUint32(head, 0)
	for _, shift := range []uint{0, 32} {
		for _, set := range []uint64{effective, permitted, inheritable} {
			sets = binary.NativeEndian.AppendUint32(sets, uint32(set>>shift))
		}
	}
	text := fmt.Sprintf("{effective=%#x, permitted=%#x, inheritable=%#x}", effective, permitted, inheritable)
	return call(unix.SYS_CAPSET, Bytes("{_LINUX_CAPABILITY_VERSION_3, 0}", head), Bytes(text, sets))
}

// Setsid is setsid(2).
func Setsid() Step { return call(unix.SYS_SETSID) }

// JoinSessionKeyring is keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL): a new
// anonymous session keyring in place of the inherited one.
func JoinSessionKeyring() Step {
	s := call(unix.SYS_KEYCTL, Const("KEYCTL_JOIN_SESSION_KEYRING", unix.KEYCTL_JOIN_SESSION_KEYRING), Null())
	s.Man = "keyctl_join_session_keyring(3)"
	return s
}

// Umask is umask(2).
func Umask(mask uint32) Step { return call(unix.SYS_UMASK, Mode(mask)) }

// UnblockSignals is rt_sigprocmask(SIG_SETMASK, {}): the child was made with
// every signal blocked.
func UnblockSignals() Step {
	s := call(unix.SYS_RT_SIGPROCMASK, Const("SIG_SETMASK", unix.SIG_SETMASK), Words(literal("[]"), 0), Null(), Int(8))
	s.Man = "sigprocmask(2)"
	return s
}

// Socket is socket(2); the names are the constants' own.
func Socket(domain, typ string, d, t uint64) Step {
	return call(unix.SYS_SOCKET, Const(domain, d), Const(typ+"|SOCK_CLOEXEC", t|unix.SOCK_CLOEXEC), Int(0))
}

// InterfaceUp is ioctl(socket, SIOCSIFFLAGS, {name, IFF_UP}); netdevice(7).
func InterfaceUp(socket Arg, name string) Step {
	ifreq := make([]byte, 40)
	copy(ifreq[:15], name)
	binary.NativeEndian.PutUint16(ifreq[16:], unix.IFF_UP|unix.IFF_RUNNING)
	s := call(unix.SYS_IOCTL, socket, Const("SIOCSIFFLAGS", unix.SIOCSIFFLAGS),
		Bytes(`{ifr_name="`+name+`", ifr_flags=IFF_UP|IFF_RUNNING}`, ifreq))
	s.Man = "netdevice(7)"
	return s
}

// Execve is execve(2).
func Execve(path string, argv, envp []string) Step {
	env := Strs(envp)
	env.Text = fmt.Sprintf("[%d variables]", len(envp))
	return call(unix.SYS_EXECVE, Str(path), Strs(argv), env)
}

// Faccessat is faccessat(2): does the path exist, for the real ids?
func Faccessat(dir Arg, path string) Step {
	s := call(unix.SYS_FACCESSAT, dir, Str(path), Const("F_OK", 0))
	s.Man = "access(2)"
	return s
}

// WaitGate reads one byte from the lifeline: the launcher wrote it when the
// gate's condition held. End of file, the launcher's death, ends the child.
func WaitGate(lifeline Arg, gate string) Step {
	s := call(unix.SYS_READ, lifeline, Bytes("gate", make([]byte, 8)), Int(1))
	return s.Named("gate: ", gate).Expect(1)
}

// gate tells whether the step is a WaitGate, and of which gate.
func (s Step) gate() (string, bool) {
	const prefix = "gate: "
	if s.Call == unix.SYS_READ && len(s.Name) > len(prefix) && s.Name[:len(prefix)] == prefix {
		return s.Name[len(prefix):], true
	}
	return "", false
}

// CheckLifeline asks the lifeline without waiting: EAGAIN means that the
// launcher still holds the other end, 0 that it is gone. Behind
// PR_SET_PDEATHSIG it closes that call's race with a launcher that died before
// it. No gate may follow, for the pipe's end no longer blocks.
func CheckLifeline(lifeline Arg) []Step {
	return []Step{
		call(unix.SYS_FCNTL, lifeline, Const("F_SETFL", unix.F_SETFL), Const("O_NONBLOCK", unix.O_NONBLOCK)).
			Named("make the lifeline non-blocking").
			Because("the next step asks the pipe and must not wait for an answer"),
		call(unix.SYS_READ, lifeline, Bytes("gate", make([]byte, 8)), Int(1)).
			Named("check that the launcher lives").MustFail(unix.EAGAIN).
			Because("a launcher that died before PR_SET_PDEATHSIG was set sends no signal; the pipe then reads as end of file"),
	}
}
