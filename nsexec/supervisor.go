package nsexec

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Supervisor waits for the ends of any number of processes with one epoll
// instance (epoll(7)); pidfds can be polled since Linux 5.3. It has no goroutine
// or thread of its own: the goroutine that calls Next lends its. Watch may be
// called by many at any time, Next by one at a time.
type Supervisor struct {
	epoll int
	wake  int        // an eventfd that ends a waiting Next
	turn  sync.Mutex // held by Next

	mu      sync.Mutex
	watched map[int32]watch // by pidfd
	closed  bool
}

type watch struct {
	process *Process
	token   any
}

// Exit is the end of one watched process. Err is ErrDone when somebody else
// waited for it.
type Exit struct {
	Process *Process
	Token   any // what Watch was given
	Status  ExitStatus
	Err     error
}

// ErrSupervisorClosed is the answer of a Supervisor after Close.
var ErrSupervisorClosed = errors.New("nsexec: the supervisor is closed")

// NewSupervisor makes one; it owns two fds until Close.
func NewSupervisor() (*Supervisor, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
	}
	if err != nil {
		unix.Close(epoll)
		if wake >= 0 {
			unix.Close(wake)
		}
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Supervisor{epoll: epoll, wake: wake, watched: map[int32]watch{}}, nil
}

// Watch has Next report the end of p, once, with this token. From here on the
// supervisor waits for p; the caller doesn't, but signals and closes it.
func (s *Supervisor) Watch(p *Process, token any) error {
	fd, ok := p.handle.acquire() // until the end was reported: the number must not be reused
	if !ok {
		return p.gone()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := error(ErrSupervisorClosed)
	if !s.closed {
		err = s.add(fd)
	}
	if err != nil {
		p.handle.release()
		return err
	}
	s.watched[int32(fd)] = watch{p, token}
	return nil
}

// add has each end wake one Next only (EPOLLONESHOT).
func (s *Supervisor) add(fd int) error {
	err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(fd)})
	if err == unix.EPERM {
		return &UnsupportedError{Feature: "polling a pidfd", Since: "5.3", Errno: unix.EPERM}
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// Next blocks until a watched process has ended, reaps it and reports it, or
// until the context ends.
func (s *Supervisor) Next(ctx context.Context) (Exit, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	defer context.AfterFunc(ctx, s.interrupt)()
	for {
		if err := s.over(ctx); err != nil {
			return Exit{}, err
		}
		var events [1]unix.EpollEvent
		n, err := unix.EpollWait(s.epoll, events[:], -1)
		switch {
		case err == unix.EINTR || n == 0:
		case err != nil:
			return Exit{}, os.NewSyscallError("epoll_wait", err)
		case events[0].Fd == int32(s.wake):
			var count [8]byte
			unix.Read(s.wake, count[:])
		default:
			return s.exit(events[0].Fd), nil
		}
	}
}

func (s *Supervisor) over(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrSupervisorClosed
	}
	return ctx.Err()
}

func (s *Supervisor) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake >= 0 {
		unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (s *Supervisor) exit(fd int32) Exit {
	s.mu.Lock()
	w := s.watched[fd]
	delete(s.watched, fd)
	s.mu.Unlock()
	status, err := w.process.reapBy(int(fd), unix.WNOHANG)
	unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, int(fd), nil)
	w.process.handle.release()
	return Exit{Process: w.process, Token: w.token, Status: status, Err: err}
}

// Close ends a waiting Next and gives the supervisor's fds back. It neither ends
// nor reaps the processes that are still watched.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.interrupt()
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake < 0 {
		return nil
	}
	for _, w := range s.watched {
		w.process.handle.release()
	}
	s.watched = nil
	err := errors.Join(unix.Close(s.epoll), unix.Close(s.wake))
	s.epoll, s.wake = -1, -1
	return err
}
