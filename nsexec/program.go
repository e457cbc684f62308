package nsexec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// program is a program that the host lane executes beside the child:
// newuidmap(1), newgidmap(1). It is a child of the same kind, without
// namespaces: no fork of our memory, whatever the heap's size.
type program struct {
	step   HostStep
	proc   *Process
	stderr *os.File
	arena  *arena
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
// nothing else of ours.
func programSteps(path string, argv []string) Program {
	return Program{
		Dup3(Slot("null"), Int(0), 0).Named("stdin"),
		Dup3(Slot("stderr"), Int(1), 0).Named("stdout"),
		Dup3(Slot("stderr"), Int(2), 0).Named("stderr"),
		CloseRange(3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close all else"),
		UnblockSignals().Named("unblock signals"),
		Execve(path, argv, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}).Named("execute"),
	}
}

// exec starts a program and goes on; join waits for it.
func (l *launch) exec(h HostStep) (int64, error) {
	argv := make([]string, len(h.Argv))
	for i, a := range h.Argv {
		argv[i] = l.expand(a)
	}
	p, err := l.spawner.startProgram(h.Path, argv)
	if err != nil {
		return 0, err
	}
	p.step = h
	l.programs = append(l.programs, p)
	return int64(p.proc.PID), nil
}

func (s *Spawner) startProgram(path string, argv []string) (*program, error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	defer unix.Close(null)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(pipe[1])
	p := &program{stderr: os.NewFile(uintptr(pipe[0]), "stderr of "+path)}
	p.arena, err = load(programSteps(path, argv), map[string]uint64{"null": uint64(null), "stderr": uint64(pipe[1])})
	if err == nil {
		p.arena.prepare(0, 0)
		p.proc, err = s.spawn(p.arena)
	}
	if err != nil {
		p.stderr.Close()
		p.arena.free()
		return nil, err
	}
	return p, nil
}

// spawn clones and keeps the pidfd.
func (s *Spawner) spawn(a *arena) (*Process, error) {
	pid, err := s.clone(a)
	if err != nil {
		a.head.tid = 0 // nobody shares the memory
		return nil, err
	}
	return &Process{PID: pid, pidfd: int(a.head.pidfd)}, nil
}

// join waits for every program that OpExec started. The first failure is told.
func (l *launch) join() (int64, error) {
	var errs []error
	for _, p := range l.programs {
		errs = append(errs, p.wait())
	}
	l.programs = nil
	return 0, errors.Join(errs...)
}

func (p *program) wait() error {
	defer p.close()
	text, _ := io.ReadAll(io.LimitReader(p.stderr, 4096))
	p.arena.awaitRelease()
	if err := programSteps(p.step.Path, p.step.Argv).refused(p.arena.results()); err != nil {
		p.proc.Wait()
		return err
	}
	status, err := p.proc.Wait()
	if err != nil {
		return err
	}
	if status.ExitCode() != 0 {
		return &ProgramError{Path: p.step.Path, Status: status, Stderr: strings.TrimSpace(string(text))}
	}
	return nil
}

// abort ends a program whose start failed elsewhere. It has our real uid, so
// the signal is permitted although it may run set-uid.
func (p *program) abort() {
	p.proc.kill()
	p.close()
}

func (p *program) close() {
	p.stderr.Close()
	p.proc.Close()
	p.arena.awaitRelease()
	p.arena.free()
}
