package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

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
// Wait and Signal reach this process or none (pidfd_open(2)). All methods may
// be called from several goroutines.
type Process struct {
	PID    int // for /proc and for people; never used to signal
	handle handle
	keeper *keeper // ends the process if we die, or nil
	done   atomic.Bool
	weak   atomic.Bool
}

func newProcess(pid, pidfd int) *Process {
	return &Process{PID: pid, handle: handle{fd: pidfd}}
}

// FD is the pidfd, owned by the Process, or -1 after Close; poll it for the end
// (POLLIN).
func (p *Process) FD() int {
	fd, ok := p.handle.acquire()
	if !ok {
		return -1
	}
	p.handle.release()
	return fd
}

// Wait blocks until the process ends, reaps it and tells how it ended. Only the
// first Wait gets the status; every other one gets ErrDone. It needs
// waitid(P_PIDFD), Linux 5.4. Where a seccomp filter forbids that, it polls the
// pidfd and reaps by number, which is safe only as long as nobody else reaps
// this child: see Weak.
func (p *Process) Wait() (ExitStatus, error) { return p.reap(0) }

// TryWait is Wait without blocking: a process that still runs gives EAGAIN.
func (p *Process) TryWait() (ExitStatus, error) { return p.reap(unix.WNOHANG) }

func (p *Process) reap(options int) (ExitStatus, error) {
	fd, ok := p.handle.acquire()
	if !ok {
		return ExitStatus{}, p.gone()
	}
	defer p.handle.release()
	return p.reapBy(fd, options)
}

// reapBy reaps through the pidfd, which the caller has acquired.
func (p *Process) reapBy(fd, options int) (ExitStatus, error) {
	if p.done.Load() {
		return ExitStatus{}, ErrDone
	}
	status, err := waitid(unix.P_PIDFD, fd, options)
	switch err {
	case unix.ENOSYS, unix.EPERM, unix.EINVAL:
		p.weak.Store(true)
		status, err = p.reapByNumber(fd, options)
	}
	switch err {
	case nil:
		p.done.Store(true)
		p.keeper.end()
		return status, nil
	case unix.ECHILD:
		p.done.Store(true)
		p.keeper.end()
		return ExitStatus{}, ErrDone
	case unix.EAGAIN:
		return ExitStatus{}, err
	}
	return ExitStatus{}, os.NewSyscallError("waitid(P_PIDFD)", err)
}

// reapByNumber is for a kernel or filter without waitid(P_PIDFD). The pidfd
// still tells that the process ended; a process that runs under its number now
// is another one, so this child was reaped by somebody else.
func (p *Process) reapByNumber(fd, options int) (ExitStatus, error) {
	timeout := -1
	if options&unix.WNOHANG != 0 {
		timeout = 0
	}
	if err := pollIn(fd, timeout); err != nil {
		return ExitStatus{}, err
	}
	status, err := waitid(unix.P_PID, p.PID, unix.WNOHANG)
	if err == unix.EAGAIN {
		err = unix.ECHILD
	}
	return status, err
}

// gone is the answer when nothing can be done with the process any more.
func (p *Process) gone() error {
	if p.done.Load() {
		return ErrDone
	}
	return fmt.Errorf("nsexec: the process was not waited for, and its Process is closed: %w", os.ErrClosed)
}

// WaitContext is Wait that ends with a context; the process then still waits to
// be reaped.
func (p *Process) WaitContext(ctx context.Context) (ExitStatus, error) {
	for {
		status, err := p.TryWait()
		if err != unix.EAGAIN {
			return status, err
		}
		if ctx.Err() != nil {
			return ExitStatus{}, fmt.Errorf("nsexec: process %d has not ended: %w", p.PID, context.Cause(ctx))
		}
		if fd, ok := p.handle.acquire(); ok {
			pollIn(fd, contextPatience)
			p.handle.release()
		}
	}
}

// contextPatience is how long a wait sleeps before it looks at its context again, in ms.
const contextPatience = 100

// Adopt is a Process for a child that something else made, with its pidfd, which
// then belongs to the Process (os/exec's SysProcAttr.PidFD).
func Adopt(pid, pidfd int) *Process { return newProcess(pid, pidfd) }

// Weak tells that a Wait had to identify the process by its number.
func (p *Process) Weak() bool { return p.weak.Load() }

// Signal sends a signal through the pidfd (pidfd_send_signal(2), Linux 5.1), and
// in no other way. A process that has ended gives ErrDone; a kernel without the
// call *UnsupportedError; a refusal under a seccomp filter *FilteredError.
func (p *Process) Signal(sig unix.Signal) error {
	fd, ok := p.handle.acquire()
	if !ok {
		return p.gone()
	}
	defer p.handle.release()
	err := unix.PidfdSendSignal(fd, sig, nil, 0)
	switch err {
	case nil:
		return nil
	case unix.ESRCH:
		return ErrDone
	case unix.ENOSYS:
		return &UnsupportedError{Feature: "pidfd_send_signal(2)", Since: "5.1", Errno: unix.ENOSYS}
	}
	return filtered("pidfd_send_signal(2)", err)
}

// Close gives the pidfd back, as soon as no Wait uses it. It neither ends nor
// reaps the process, but dismisses its keeper (OpKeep).
func (p *Process) Close() error {
	p.keeper.end()
	return p.handle.close()
}
