package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// handle owns one pidfd among several goroutines. The number of a closed fd is
// reused at once, so close(2) waits for whoever is using it.
type handle struct {
	mu     sync.Mutex
	fd     int
	users  int
	closed bool
}

// acquire lends the fd until release. It fails once close was called.
func (h *handle) acquire() (fd int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return -1, false
	}
	h.users++
	return h.fd, true
}

func (h *handle) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users--
	if h.closed && h.users == 0 {
		unix.Close(h.fd)
	}
}

func (h *handle) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.users > 0 {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(h.fd))
}

// pollIn waits until fd is readable; a pidfd is when its process has ended
// (pidfd_open(2), Linux 5.3). timeout is in ms, -1 for ever; EAGAIN when it passed.
func pollIn(fd, timeout int) error {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, timeout)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return unix.EAGAIN
		}
		return nil
	}
}
