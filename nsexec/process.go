package nsexec

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrDone is the answer of Wait and Signal once a process has been waited for,
// by us or by somebody else in this program. Always the same, never a hang.
var ErrDone = errors.New("nsexec: the process has ended and was already waited for")

// ExitStatus tells how a process ended.
type ExitStatus struct {
	Code   int         // exit code, when Signal is 0
	Signal unix.Signal // the signal that ended it, or 0
	Core   bool
}

// ExitCode is the shell's convention: the code, or 128 + the signal.
func (s ExitStatus) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

func (s ExitStatus) String() string {
	if s.Signal != 0 {
		return "killed by " + unix.SignalName(s.Signal)
	}
	return fmt.Sprintf("exit %d", s.Code)
}

// Process is a child held by its pidfd: whatever happens to the number PID,
// Wait and Signal reach this process or none (pidfd_open(2)).
type Process struct {
	PID   int // for /proc and for people; never used to signal
	pidfd int

	mu   sync.Mutex
	done bool
	weak bool
}

// FD is the pidfd, owned by the Process; poll it for the end (POLLIN).
func (p *Process) FD() int { return p.pidfd }

// Wait blocks until the process ends, reaps it and tells how it ended. Only the
// first Wait gets the status; every later one gets ErrDone. It needs
// waitid(P_PIDFD), Linux 5.4. Where a seccomp filter forbids that, it waits for
// the pid, which is safe only as long as nobody else reaps it: see Weak.
func (p *Process) Wait() (ExitStatus, error) {
	return p.reap(0)
}

// TryWait is Wait without blocking: a process that still runs gives EAGAIN.
func (p *Process) TryWait() (ExitStatus, error) { return p.reap(unix.WNOHANG) }

func (p *Process) reap(options int) (ExitStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return ExitStatus{}, ErrDone
	}
	status, err := waitid(unix.P_PIDFD, p.pidfd, options)
	switch err {
	case unix.ENOSYS, unix.EPERM, unix.EINVAL:
		p.weak = true
		status, err = waitid(unix.P_PID, p.PID, options)
	}
	switch err {
	case nil:
		p.done = true
		return status, nil
	case unix.ECHILD:
		p.done = true
		return ExitStatus{}, ErrDone
	}
	return ExitStatus{}, os.NewSyscallError("waitid(P_PIDFD)", err)
}

// Weak tells that the last Wait had to identify the process by its number.
func (p *Process) Weak() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weak
}

// Signal sends a signal through the pidfd (pidfd_send_signal(2), Linux 5.1). A
// process that has ended gives ErrDone.
func (p *Process) Signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	switch err {
	case nil:
		return nil
	case unix.ESRCH, unix.EBADF:
		return ErrDone
	case unix.ENOSYS:
		return &UnsupportedError{Feature: "pidfd_send_signal(2)", Since: "5.1", Errno: unix.ENOSYS}
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}

// Close gives the pidfd back. It neither ends nor reaps the process.
func (p *Process) Close() error {
	if p.pidfd < 0 {
		return nil
	}
	fd := p.pidfd
	p.pidfd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// kill ends the process and reaps it; used when a start fails.
func (p *Process) kill() {
	p.Signal(unix.SIGKILL)
	p.Wait()
}
