package nsexec

import (
	"os"

	"golang.org/x/sys/unix"
)

// What a child inherits has a number from 3 on, although the launcher may have
// closed 0, 1 or 2: the child's first steps move fds there, or leave there what
// its program is to have.

// openHigh opens a device, clear of the numbers 0, 1 and 2.
func openHigh(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return moveHigh(fd)
}

// moveHigh gives a fd a number from 3 on, which no dup3 of a child's first
// steps overwrites; a launcher may have been started with 0, 1 or 2 closed.
func moveHigh(fd int) (int, error) {
	if fd > 2 {
		return fd, nil
	}
	defer unix.Close(fd)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	return high, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
}

// highPipe makes a pipe clear of 0, 1 and 2.
func highPipe() (read, write int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	read, err = moveHigh(p[0])
	if err != nil {
		unix.Close(p[1])
		return -1, -1, err
	}
	write, err = moveHigh(p[1])
	if err != nil {
		unix.Close(read)
		return -1, -1, err
	}
	return read, write, nil
}
