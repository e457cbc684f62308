package userns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// # The mechanism ptrace, the classic
//
// Go's own way to make a child, fork and execve, can put it into a new user
// namespace, but the child then needs a program. So it is traced
// (PTRACE_TRACEME): the kernel stops a traced process at the end of its execve,
// before the program's first instruction. There it stands, in its namespace,
// and runs nothing; we open the namespace, write the maps and kill it.
//
//	parent                                      child
//	clone(CLONE_NEWUSER|CLONE_PIDFD|SIGCHLD) ─▶ setpgid(0, 0)
//	                                            prctl(PR_SET_PDEATHSIG, SIGKILL)
//	                                            ptrace(PTRACE_TRACEME)
//	read(pipe) until the execve ◀────────────── execve("/proc/self/exe"): stopped (SIGTRAP)
//	read /proc/PID/stat until it says t
//	open /proc/PID/uid_map, …; PIDFD_GET_USER_NAMESPACE
//	pidfd_send_signal(SIGKILL)
//	write the maps
//	waitid(P_PIDFD) of the child before
//
// It costs a copy of our page tables, which grows with the heap, and an execve
// of this program, only to throw both away. It is what containerd does
// (containerd/containerd#10611), and the baseline for the other mechanisms.
//
// It must not run a single instruction of the program: the tracer, which is the
// thread that forked, must live until the child is dead, since a dying tracer
// lets its tracees run. Go ends no thread that a goroutine didn't lock. If the
// whole process dies, PR_SET_PDEATHSIG kills the child.
//
// Any signal stops a traced process, also one that would be ignored, and before
// its execve that would be for ever: Go waits for the execve. So the child leaves
// our process group, which gets a terminal's SIGINT, SIGTSTP and SIGWINCH.
//
// Where ptrace(2) is forbidden, by a seccomp filter of an outer container
// (freedomofpress/dangerzone#846) or by Yama's ptrace_scope 3, or where somebody
// traces us and our children already (strace -f), this mechanism isn't there: a
// *PtraceError.

// PtraceError tells that ptrace(2) can't be used here. It unwraps to the errno.
type PtraceError struct {
	Cause  string
	Remedy string
	Errno  unix.Errno
}

func (e *PtraceError) Error() string {
	return fmt.Sprintf("userns: ptrace(PTRACE_TRACEME): %s: %s\n  %s", e.Errno, e.Cause, e.Remedy)
}

func (e *PtraceError) Unwrap() error { return e.Errno }

type ptraceMaker struct{}

func newPtraceMaker() (maker, error) {
	if err := nsexec.ProbeKill(); err != nil {
		return nil, err // a stopped child that couldn't be killed through its pidfd
	}
	return ptraceMaker{}, nil
}

func (ptraceMaker) acts() []act {
	return []act{{actMake, "make the child", "clone(CLONE_NEWUSER|CLONE_PIDFD|SIGCHLD); ptrace(PTRACE_TRACEME); execve(\"/proc/self/exe\")",
		"Go's fork and execve: the traced child stops at the end of its execve, before the program's first instruction", "ptrace(2)"}}
}

// tracedProgram is the child's life, for a reader.
func tracedProgram() nsexec.Program {
	return nsexec.Program{
		nsexec.Step{Call: unix.SYS_SETPGID, Args: []nsexec.Arg{nsexec.Int(0), nsexec.Int(0)}}.
			Named("leave the process group").Because("a terminal's signal would stop a traced child before its execve, for which Go waits"),
		nsexec.Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, nsexec.Const("SIGKILL", uint64(unix.SIGKILL))).
			Named("die with the parent").Because("a tracee whose tracer dies would run on"),
		nsexec.Step{Call: unix.SYS_PTRACE, Args: []nsexec.Arg{nsexec.Const("PTRACE_TRACEME", unix.PTRACE_TRACEME), nsexec.Int(0), nsexec.Null(), nsexec.Null()}}.
			Named("be traced").Because("so the next step stops before the program's first instruction"),
		nsexec.Execve("/proc/self/exe", []string{"userns"}, nil).Named("execute this program, and stop").
			Because("Go's child must execute something"),
	}
}

func (ptraceMaker) note() string { return "" }
func (ptraceMaker) close() error { return nil }

func (ptraceMaker) make() (holder, error) {
	pidfd := -1
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: true, PidFD: &pidfd}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"userns"}, &syscall.ProcAttr{Sys: sys})
	if err != nil {
		if blocked := ptraceBlocked(); blocked != nil {
			return nil, blocked
		}
		return nil, err
	}
	c := &traced{nsexec.Adopt(pid, pidfd)}
	if err := c.awaitStop(); err != nil {
		c.kill()
		return nil, errors.Join(err, c.reap(context.Background()))
	}
	return c, nil
}

// awaitStop waits until the child has come to its stop. In the midst of its
// execve, when ForkExec returns, /proc/PID belongs to root for a moment. A wait4(-1)
// elsewhere in this program may have taken the news of the stop, so its state is
// read instead (proc_pid_stat(5)).
func (c *traced) awaitStop() error {
	pause := unix.NsecToTimespec(int64(10 * time.Microsecond))
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); unix.Nanosleep(&pause, nil) {
		state, err := procState(c.id())
		switch {
		case state == 't':
			return nil
		case state == 'Z' || state == 'X':
			return &VanishedError{}
		case err != nil && c.proc.Signal(0) != nsexec.ErrDone:
			return err // it is there, and its state can't be read: RLIMIT_NOFILE, say
		case err != nil:
			return &VanishedError{}
		}
	}
	return fmt.Errorf("the traced child had not come to its stop after 10 s: %w", unix.ETIMEDOUT)
}

// procState is the state letter of /proc/PID/stat.
func procState(pid int) (byte, error) {
	fd, err := openProc(pid, "stat", unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var text [128]byte
	n, err := unix.Read(fd, text[:])
	if i := bytes.LastIndex(text[:max(n, 0)], []byte(") ")); i >= 0 && i+2 < n {
		return text[i+2], nil
	}
	if err == nil {
		err = unix.EIO
	}
	return 0, err
}

// ptraceBlocked asks the call itself, of no process: ESRCH is its answer where
// it is allowed. Yama's answer to PTRACE_TRACEME has to be read.
func ptraceBlocked() error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_CONT, 0, 0, 0, 0, 0)
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return &PtraceError{"a seccomp filter stands above this process (Seccomp: 2 in /proc/self/status), as in an outer container",
			"allow ptrace(2) there, or use the mechanism vm, which doesn't need it", errno}
	}
	if pid := tracer(); pid != "" {
		return &PtraceError{"process " + pid + " traces this one (TracerPid in /proc/self/status), and its children too if it follows them, as strace -f does; a process has one tracer",
			"use the mechanism vm, which doesn't need it", unix.EPERM}
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(scope)) == "3" {
		return &PtraceError{"Yama forbids it to everybody (kernel.yama.ptrace_scope is 3)",
			"use the mechanism vm, which doesn't need it; 3 can't be taken back before a reboot", unix.EPERM}
	}
	return nil
}

// tracer is the pid of the process that traces us, or "".
func tracer() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(status), "\nTracerPid:\t")
	pid, _, _ := strings.Cut(after, "\n")
	return strings.TrimPrefix(pid, "0") // no pid begins with it
}

// traced is a child that stands stopped at its execve.
type traced struct{ proc *nsexec.Process }

func (c *traced) id() int    { return c.proc.PID }
func (c *traced) pidfd() int { return c.proc.FD() }

func (c *traced) kill() error { return c.proc.Signal(unix.SIGKILL) }

func (c *traced) reap(ctx context.Context) error {
	if _, err := c.proc.WaitContext(ctx); err != nil && err != nsexec.ErrDone {
		return err
	}
	return c.proc.Close()
}
