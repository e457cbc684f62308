package nsexec

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// PidfdSupport tells which part of pidfd support is missing here, found by
// using each. nil is present; else the error is an *UnsupportedError.
type PidfdSupport struct {
	Clone3     error // clone3(2), Linux 5.3
	Clone      error // CLONE_PIDFD, Linux 5.2, by whichever clone works
	Open       error // pidfd_open(2), Linux 5.3; this package does without
	SendSignal error // pidfd_send_signal(2), Linux 5.1
	Wait       error // waitid(P_PIDFD), Linux 5.4
}

// Err joins what is missing; nil if all is there.
func (p PidfdSupport) Err() error {
	return errors.Join(p.Clone3, p.Clone, p.Open, p.SendSignal, p.Wait)
}

// SupportsPidfd is ProbePidfd().Err(): nil, or an error that names every part
// that is missing.
func SupportsPidfd() error { return ProbePidfd().Err() }

// ProbePidfd uses each part once: it makes a child that does nothing but exit,
// and signals and reaps it. Filters are a thread's: it asks for the caller's.
func ProbePidfd() PidfdSupport {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p PidfdSupport
	if !clone3Exists() {
		p.Clone3 = &UnsupportedError{Feature: "clone3(2)", Since: "5.3", Errno: unix.ENOSYS}
	}
	own, err := unix.PidfdOpen(os.Getpid(), 0)
	p.Open = lacks("pidfd_open(2)", "5.3", err)
	pidfd, end, err := probeChild(p.Clone3 != nil)
	p.Clone = lacks("CLONE_PIDFD", "5.2", err)
	if err != nil {
		pidfd = own
	}
	p.SendSignal = lacks("pidfd_send_signal(2)", "5.1", sendNothing(pidfd))
	_, err = waitid(unix.P_PIDFD, pidfd, unix.WNOHANG)
	if err == unix.EAGAIN || err == unix.ECHILD || err == unix.EBADF {
		err = nil // it was understood
	}
	p.Wait = lacks("waitid(P_PIDFD)", "5.4", err)
	end()
	if own >= 0 {
		unix.Close(own)
	}
	return p
}

// ProbeKill tells whether a child can be held and killed by its pidfd: nil, or an
// *UnsupportedError or *FilteredError that names the call.
func ProbeKill() error {
	fd, err := ownPidfd()
	switch err {
	case nil:
		return os.NewSyscallError("close", unix.Close(fd))
	case unix.ENOSYS:
		if !underFilter() {
			return &UnsupportedError{Feature: "pidfd_open(2)", Since: "5.3", Errno: unix.ENOSYS}
		}
	}
	return filtered("pidfd_open(2) or pidfd_send_signal(2)", err)
}

func lacks(feature, since string, err error) error {
	errno, failed := err.(unix.Errno)
	if !failed {
		return nil
	}
	return &UnsupportedError{Feature: feature, Since: since, Errno: errno}
}

// sendNothing sends signal 0. A pidfd of -1 gives EBADF where the call exists.
func sendNothing(pidfd int) error {
	err := unix.PidfdSendSignal(pidfd, 0, nil, 0)
	if err == unix.EBADF || err == unix.ESRCH {
		return nil
	}
	return err
}

// probeChild makes a child with an empty program; end reaps it.
func probeChild(byClone2 bool) (pidfd int, end func(), err error) {
	a, err := load(nil, nil, nil)
	if err != nil {
		return -1, func() {}, err
	}
	a.prepare(0, 0)
	clone := a.clone
	if byClone2 {
		clone = a.clone2
	}
	pid, err := clone()
	if err != nil {
		a.free()
		return -1, func() {}, err
	}
	p := newProcess(pid, int(a.head.pidfd))
	return p.FD(), func() {
		a.awaitRelease()
		a.free()
		p.Wait()
		p.Close()
	}, nil
}
