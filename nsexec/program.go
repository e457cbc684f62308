package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// program is a program that the host lane executes beside the child:
// newuidmap(1), newgidmap(1). It is a child of the same kind, without
// namespaces: no fork of our memory, whatever the heap's size.
type program struct {
	step    HostStep
	steps   Program
	proc    *Process
	stderr  int // the pipe's read end
	arena   *arena
	unwatch func() bool // gives the watch on the context up
}

// ProgramError is a program that the host lane ran and that failed.
type ProgramError struct {
	Path   string
	Status ExitStatus
	Stderr string // at most 4 KiB
}

func (e *ProgramError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s: %s, with no message", e.Path, e.Status)
	}
	return fmt.Sprintf("%s: %s: %s", e.Path, e.Status, e.Stderr)
}

// programSteps is the child lane of such a program: its own stdin and stderr,
// nothing else of ours. A set-uid program clears PR_SET_PDEATHSIG at its execve.
func programSteps(path string, argv []string, core unix.Rlimit) Program {
	return Program{
		Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, Const("SIGKILL", uint64(unix.SIGKILL))).Named("die with the launcher"),
		call(unix.SYS_GETPPID).Named("check that the launcher lives").Expect(int64(os.Getpid())),
		NoCore(core.Max),
		Dup3(Slot("null"), Int(0), 0).Named("stdin"),
		Dup3(Slot("stderr"), Int(1), 0).Named("stdout"),
		Dup3(Slot("stderr"), Int(2), 0).Named("stderr"),
		CloseRange(3, ^uint32(0), 0).Named("close all else"),
		Setrlimit("RLIMIT_CORE", unix.RLIMIT_CORE, core.Cur, core.Max).Named("core dumps as before"),
		UnblockSignals().Named("unblock signals"),
		Execve(path, argv, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}).Named("execute"),
	}
}

// exec starts a program and goes on; join waits for it.
func (l *launch) exec(ctx context.Context, h HostStep) (int64, error) {
	argv := make([]string, len(h.Argv))
	for i, a := range h.Argv {
		argv[i] = l.expand(a)
	}
	p, err := l.spawner.startProgram(h.Path, argv)
	if err != nil {
		return 0, err
	}
	p.step = h
	p.unwatch = whenEnded(ctx, func() { p.proc.Signal(unix.SIGKILL) })
	l.programs = append(l.programs, p)
	return int64(p.proc.PID), nil
}

func (s *Spawner) startProgram(path string, argv []string) (*program, error) {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	null, err := openHigh("/dev/null")
	if err != nil {
		return nil, err
	}
	defer unix.Close(null)
	read, write, err := highPipe()
	if err != nil {
		return nil, err
	}
	defer unix.Close(write)
	p := &program{stderr: read, steps: programSteps(path, argv, core)}
	p.arena, p.proc, err = s.make(birth{program: p.steps, inputs: map[string]uint64{"null": uint64(null), "stderr": uint64(write)}})
	if err != nil {
		unix.Close(p.stderr)
		return nil, err
	}
	return p, nil
}

// join waits for every program that OpExec started. Every failure is told.
func (l *launch) join() (int64, error) {
	var errs []error
	for _, p := range l.programs {
		err := p.wait(l.report)
		if err == nil {
			err = l.wrote(p.step)
		}
		errs = append(errs, err)
	}
	l.programs = nil
	return 0, errors.Join(errs...)
}

// wrote checks that newuidmap(1) or newgidmap(1), which ended with 0, wrote a map.
func (l *launch) wrote(h HostStep) error {
	file, is := map[string]string{"newuidmap": "uid_map", "newgidmap": "gid_map"}[h.Argv[0]]
	if !is {
		return nil
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(l.child.PID) + "/" + file)
	if err == nil && len(text) == 0 {
		return fmt.Errorf("%s ended with 0 and wrote no %s: is it the real %s(1)?", h.Path, file, h.Argv[0])
	}
	return nil // a child that is gone tells by itself
}

func (p *program) wait(report *Report) error {
	defer p.close()
	unix.SetNonblock(p.stderr, true) // our end alone
	text, ended := readUntilEnd(p.stderr, p.proc.FD(), time.Now().Add(programTime))
	if !ended {
		p.end()
	}
	p.arena.awaitRelease()
	refused := p.steps.refused(p.arena.results())
	status, err := p.proc.Wait()
	if err == ErrDone {
		status, err = p.stolen(text, report)
	}
	switch {
	case refused != nil:
		return refused
	case !ended:
		return fmt.Errorf("%s had not ended after %v and was killed: %w", p.step.Path, programTime, unix.ETIMEDOUT)
	case err != nil:
		return fmt.Errorf("%s: %w", p.step.Path, err)
	case status.ExitCode() != 0:
		return &ProgramError{Path: p.step.Path, Status: status, Stderr: strings.TrimSpace(text)}
	}
	return nil
}

// stolen is for a program whose status another wait of ours got, a wait4(-1) or
// an ignored SIGCHLD. Where the kernel doesn't keep the status, a program that
// said nothing is taken as a success, and the report says so.
func (p *program) stolen(text string, report *Report) (ExitStatus, error) {
	fd, ok := p.proc.handle.acquire()
	if !ok {
		return ExitStatus{}, ErrDone
	}
	defer p.proc.handle.release()
	if status, err := exitInfo(fd); err == nil || text != "" {
		return status, err
	}
	report.Notes = append(report.Notes, p.step.Path+" ended, and another wait of this program took its exit status; "+
		"as it printed no error, it was taken to have worked")
	return ExitStatus{}, nil
}

// programTime is how long a program of the host lane may take: newuidmap asks
// the system's user database, which may be a directory service out of reach.
const programTime = 20 * time.Second

// readUntilEnd reads what a process says until it ends, or tells that it hadn't
// by the deadline. End of file is not waited for: a process that it left behind
// may hold the pipe for ever.
func readUntilEnd(pipe, pidfd int, deadline time.Time) (said string, ended bool) {
	const most = 4096
	var text []byte
	buf := make([]byte, most)
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(pipe), Events: unix.POLLIN}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return string(text), false
		}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return string(text), true
		}
		n, err := unix.Read(pipe, buf)
		if n > 0 {
			text = append(text, buf[:min(n, most-len(text))]...)
			continue // before the end is looked at: it may be behind what was said
		}
		if fds[0].Revents != 0 {
			return string(text), true
		}
		if err == nil { // end of file: only the process is left to wait for
			fds[1].Fd = -1
		}
	}
}

// abort ends a program whose start failed elsewhere. It has our real uid, so
// the signal is permitted although it may run set-uid.
func (p *program) abort() {
	p.end()
	p.proc.Wait()
	p.close()
}

func (p *program) end() {
	if err := p.proc.Signal(unix.SIGKILL); err != nil && err != ErrDone {
		p.arena.cancel()
	}
}

func (p *program) close() {
	p.unwatch()
	p.arena.awaitRelease()
	p.arena.free()
	p.proc.Close()
	unix.Close(p.stderr)
}
