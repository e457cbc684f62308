package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia.dev/test/filter"
)

// play is the test binary in a role.
func play(role string, args []string) int {
	os.Unsetenv("WOLFFIA_E2E_ROLE")
	switch role {
	case "filter": // CALL=ERRNO,… COMMAND…: what an outer container's seccomp filter refuses
		return playFilter(args)
	case "terminal": // COMMAND…: with stdin as the controlling terminal
		if _, err := unix.Setsid(); err != nil {
			return fail(err)
		}
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return fail(err)
		}
		return execute(args)
	case "ignore-hup": // COMMAND…: as nohup(1)
		signal.Ignore(unix.SIGHUP)
		return execute(args)
	case "signals":
		return playSignals()
	case "fds":
		return playFDs()
	case "ids":
		fmt.Println(os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid())
		return 0
	case "push":
		return playPush()
	case "pty":
		return playPTY()
	}
	return fail(fmt.Errorf("no such role: %s", role))
}

func execute(args []string) int {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fail(err)
	}
	return fail(unix.Exec(path, args, os.Environ()))
}

// playFilter executes a command below a filter. An ordinary user's thread has no_new_privs, and so has the execve.
func playFilter(args []string) int {
	runtime.LockOSThread()
	if err := filter.Install(args[0]); err != nil {
		return fail(err)
	}
	return execute(args[1:])
}

// playSignals prints each signal, until USR2 ends it with 9.
func playSignals() int {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT, unix.SIGWINCH)
	fmt.Println("ready")
	end := make(<-chan time.Time)
	for {
		select {
		case sig := <-ch:
			fmt.Println(unix.SignalName(sig.(syscall.Signal)))
			if sig == unix.SIGUSR2 {
				end = time.After(50 * time.Millisecond) // for what might come twice
			}
		case <-end:
			return 9
		}
	}
}

func playFDs() int {
	for fd := range 1024 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			fmt.Println(fd, to)
		}
	}
	return 0
}

// playPush tries to put a character into the terminal's input, by every fd that could lead there.
func playPush() int {
	char := byte('X')
	for _, name := range []string{"/dev/stdin", "/dev/tty"} {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			fmt.Println(name, "open", err)
			continue
		}
		steal := unix.IoctlSetInt(fd, unix.TIOCSCTTY, 1)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&char)))
		fmt.Println(name, "TIOCSCTTY", steal, "TIOCSTI", errno)
		if errno == 0 || steal == nil {
			return 1
		}
	}
	return 0
}

// playPTY makes a terminal of the container's own devpts.
func playPTY() int {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fail(err)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return fail(err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fail(err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	if _, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return fail(err)
	}
	fmt.Println(name)
	return 0
}

// elf is a tiny 64-bit program for the machine that this runs on: nothing but a header, the interpreter that it
// names (PT_INTERP, "" for none), and code that is zeros, which no CPU of ours executes without a fault.
func elf(interpreter string) string {
	machine := map[bool]uint16{true: 62, false: 183}[unix.SYS_READ == 0] // EM_X86_64, EM_AARCH64
	const base, headers = 0x400000, 64 + 2*56
	b := make([]byte, headers, 4096)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2) // ET_EXEC
	le.PutUint16(b[18:], machine)
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[24:], base+headers+64) // entry
	le.PutUint64(b[32:], 64)              // program headers
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 2)
	program := func(at int, kind uint32, offset, size uint64) {
		le.PutUint32(b[at:], kind)
		le.PutUint32(b[at+4:], 5) // readable, executable
		for i, v := range []uint64{offset, base + offset, base + offset, size, size, 4096} {
			le.PutUint64(b[at+8+8*i:], v)
		}
	}
	program(64, 1, 0, 4096) // PT_LOAD
	if interpreter != "" {
		program(64+56, 3, headers, uint64(len(interpreter)+1)) // PT_INTERP
	}
	b = append(b, interpreter...)
	return string(b[:4096])
}
