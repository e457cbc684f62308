package nsexec

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Noop is a child that does nothing. It exists in new namespaces until it is
// killed, so that somebody can take hold of them from outside.
//
// It shares our memory and our fd table (CLONE_VM, CLONE_FILES): nothing is
// copied, so it costs the same with any heap and any number of open files, and
// holds no second copy of a pipe's end. Its whole program is one ppoll(2) of a
// pidfd of this process: when we die, however that happens and whichever thread
// made it, the pidfd becomes readable and the child ends. It never unblocks a
// signal, so no handler and no core dump can happen in it, and it takes no
// credentials, so our dumpable flag is left alone.
//
// Whoever gets into its namespaces with privilege over them could read our
// memory through it: nobody may be let in before it has been reaped.
type Noop struct {
	PID      int // for /proc; never used to signal
	noops    *Noops
	arena    *arena
	pidfd    int
	lifeline int // the pipe's write end, -1 where a pidfd of ours is watched
}

// Noops makes children of one kind. Its methods may be called from several
// goroutines.
type Noops struct {
	flags   uint64 // all clone flags
	self    int    // the pidfd of this process; -1: none is to be had, and each child gets a lifeline
	note    string
	program Program
	old     bool // clone3(2) is forbidden, clone(2) makes the children

	mu   sync.Mutex
	idle []*Noop // with their memory
}

// maxIdleNoops bounds the memory kept for the next children, 4 to 8 KiB each.
const maxIdleNoops = 16

// NewNoops prepares children in the namespaces of flags (CLONE_NEWUSER, …), by
// clone3(2), Linux 5.5 for CLONE_CLEAR_SIGHAND; with private they share neither
// memory nor fds, as fork(2) does it, at a cost that grows with both.
//
// Where a seccomp filter forbids pidfd_open(2) or pidfd_send_signal(2), a pipe's
// end of file tells the child of our death and ends it, and it has an fd table
// of its own; where it forbids clone3(2), clone(2) is used. Note says so.
func NewNoops(flags uint64, private bool) (*Noops, error) {
	n := &Noops{flags: flags | unix.CLONE_PIDFD, self: -1}
	if !private {
		n.flags |= unix.CLONE_VM | unix.CLONE_FILES
	}
	var notes []string
	self, err := ownPidfd()
	switch err {
	case nil:
		n.self, n.program = self, watchSelf(self)
	case unix.ENOSYS, unix.EPERM:
		n.flags &^= unix.CLONE_FILES
		n.program = watchLifeline()
		notes = append(notes, "pidfd_open(2) or pidfd_send_signal(2): "+errnoText(err.(unix.Errno))+
			": a pipe tells the child of our death, and it copies the fd table")
	default:
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if n.old = !clone3Exists(); n.old {
		notes = append(notes, "clone3(2) is forbidden here or unknown: clone(2) makes the child")
	} else {
		n.flags |= unix.CLONE_CLEAR_SIGHAND
	}
	n.note = strings.Join(notes, "; ")
	return n, nil
}

// ownPidfd is a pidfd of this process, through which signals can be sent. The
// errno is the first call's that fails.
func ownPidfd() (int, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return -1, err
	}
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return moveHigh(fd)
}

// watchSelf is the whole life of a child that shares our fd table.
func watchSelf(self int) Program {
	named := pollFDs(self)
	named.Text = "[{fd=the parent's pidfd, events=POLLIN}]"
	return Program{call(unix.SYS_PPOLL, named, Int(1), Null(), Null(), Int(8)).
		Named("wait to be killed").Because("the pidfd is readable when the parent has died, and then the child ends too")}
}

// watchLifeline is it for one that has a table of its own: it must not hold the
// other end of its own pipe, nor anything else that is ours.
func watchLifeline() Program {
	return Program{
		Dup3(Slot(Lifeline), Int(3), unix.O_CLOEXEC).Named("keep the lifeline").Allow("it has this number already", unix.EINVAL),
		CloseRange(4, ^uint32(0), 0).Named("close all other fds").Because("the lifeline's other end must be ours alone"),
		call(unix.SYS_READ, Int(3), Bytes("byte", make([]byte, 8)), Int(1)).Named("wait to be killed").
			Because("end of file tells our death"),
	}
}

// Program is what each child executes; then it exits.
func (n *Noops) Program() Program { return n.program }

// Flags are the clone flags of each child.
func (n *Noops) Flags() uint64 { return n.flags }

// Note is what had to be done in another way here, or "".
func (n *Noops) Note() string { return n.note }

// Close gives back what the children's maker holds. Children that still live end
// by Kill as before.
func (n *Noops) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.idle {
		c.arena.free()
	}
	n.idle = nil
	if n.self < 0 {
		return nil
	}
	self := n.self
	n.self = -1
	return os.NewSyscallError("close", unix.Close(self))
}

// Start makes a child. It allocates nothing once a child has been reaped. The
// errors are clone(2)'s: EPERM (namespaces are forbidden), ENOSPC (a limit of
// namespaces, or nested 33 deep), EAGAIN (RLIMIT_NPROC, pids.max), EMFILE,
// ENOMEM.
func (n *Noops) Start() (*Noop, error) {
	c := n.take()
	if c == nil {
		c = &Noop{noops: n, lifeline: -1}
	}
	if err := c.start(); err != nil {
		n.put(c)
		return nil, err
	}
	return c, nil
}

func (n *Noops) take() *Noop {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := len(n.idle) - 1
	if last < 0 {
		return nil
	}
	c := n.idle[last]
	n.idle = n.idle[:last]
	return c
}

// put keeps a child's memory for the next one.
func (n *Noops) put(c *Noop) {
	c.PID, c.pidfd = 0, -1
	n.mu.Lock()
	defer n.mu.Unlock()
	// A program with a lifeline has that fd's number in it: it is laid out anew.
	if len(n.idle) < maxIdleNoops && c.arena != nil && n.self >= 0 {
		n.idle = append(n.idle, c)
		return
	}
	c.arena.free()
	c.arena = nil
}

func (c *Noop) start() error {
	var inputs map[string]uint64
	read := -1
	if c.noops.self < 0 {
		var err error
		if read, c.lifeline, err = highPipe(); err != nil {
			return err
		}
		defer unix.Close(read)
		inputs = map[string]uint64{Lifeline: uint64(read)}
	}
	if c.arena == nil {
		a, err := load(nil, c.noops.program, inputs)
		if err != nil {
			c.hangUp()
			return err
		}
		c.arena = a
	}
	c.arena.prepare(0, 0)
	c.arena.head.args.flags = c.noops.flags // no CLONE_CHILD_CLEARTID: the reaping tells that the memory is free
	c.arena.head.args.childTID = 0
	clone := (*arena).clone
	if c.noops.old {
		clone = (*arena).clone2
	}
	pid, err := clone(c.arena)
	if err != nil {
		c.hangUp()
		return filtered("clone(2)", err)
	}
	c.PID, c.pidfd = pid, int(c.arena.head.pidfd)
	return nil
}

func (c *Noop) hangUp() {
	if c.lifeline >= 0 {
		unix.Close(c.lifeline)
		c.lifeline = -1
	}
}

// FD is the child's pidfd, which belongs to the Noop.
func (c *Noop) FD() int { return c.pidfd }

// Kill ends the child, through its pidfd. nil proves that the child had not
// been reaped: until now its PID was its own, and what was opened below
// /proc/PID is this child's. ErrDone: somebody else reaped it, and nothing that
// was opened by its number may be used. Where a filter forbids
// pidfd_send_signal(2) and the child has a lifeline, that is cut, and a look
// through the pidfd must do as proof.
func (c *Noop) Kill() error {
	err := unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	switch err {
	case nil:
		return nil
	case unix.ESRCH:
		return ErrDone
	}
	return c.killUnsignalled(err)
}

// killUnsignalled ends a child that no signal reaches: its next step fails, and
// the one that it waits in gives way when the lifeline ends or the pidfd that
// it polls is replaced.
func (c *Noop) killUnsignalled(err error) error {
	if c.lifeline < 0 {
		if e, ok := err.(unix.Errno); ok {
			err = filtered("pidfd_send_signal(2)", e)
		}
		return err
	}
	if _, reaped := waitid(unix.P_PIDFD, c.pidfd, unix.WNOHANG|unix.WNOWAIT); reaped == unix.ECHILD {
		return ErrDone
	}
	c.hangUp()
	return nil
}

// Reap waits for the end of a child that was killed, and reaps it. Then our
// memory is shared no more, and the Noop must not be used again. If a context
// ends first, the child is still to be reaped, by another Reap.
func (c *Noop) Reap(ctx context.Context) error {
	options := unix.WNOHANG
	if ctx.Done() == nil {
		options = 0 // a context that never ends needs no looks at it
	}
	for {
		err := c.tryReap(options)
		if err != unix.EAGAIN {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("nsexec: child %d was killed and has not ended: %w", c.PID, context.Cause(ctx))
		}
		pollIn(c.pidfd, contextPatience)
	}
}

// tryReap is one look, with WNOHANG: EAGAIN while the child has not ended.
func (c *Noop) tryReap(options int) error {
	_, err := waitid(unix.P_PIDFD, c.pidfd, options)
	switch err {
	case unix.EAGAIN:
		return err
	case unix.ENOSYS, unix.EPERM, unix.EINVAL: // waitid(P_PIDFD) is forbidden
		if err := pollIn(c.pidfd, 0); err != nil {
			return err
		}
		waitid(unix.P_PID, c.PID, unix.WNOHANG) // our dead child, or nobody: it was reaped elsewhere
	}
	unix.Close(c.pidfd) // ECHILD: it was reaped elsewhere
	c.hangUp()
	c.noops.put(c)
	return nil
}
