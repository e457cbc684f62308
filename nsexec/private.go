package nsexec

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// RunPrivate executes a program in a child that has a copy of our memory instead
// of the memory itself, as fork(2) gives it, and tells what its steps returned.
// It is for programs that enter namespaces where others may be: whoever has
// privilege there could read, through a child that shares our memory, all of it
// (/proc/PID/mem). The copy is made undumpable by the child's first step, which
// shuts them out (ptrace(2), "Ptrace access mode checking").
//
// The child shares our fd table: an fd that a step opens is ours as soon as
// RunPrivate returns, under the number that the step returned, and the caller's
// to close. fds are the slots that the program may use. The program must not
// block: nothing but the context ends it. Its cost grows with our heap.
//
// A step that fails is a *StepError. The results of the steps before it, and so
// the fds that they opened, are returned with every error that came after the
// child was made.
func RunPrivate(ctx context.Context, p Program, fds map[string]int) ([]Result, error) {
	guarded := append(Program{Prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, Int(0)).Named("make the copy undumpable").
		Because("whoever is in the namespaces that are entered must not read it")}, p...)
	inputs := make(map[string]uint64, len(fds))
	var names []string
	for name, fd := range fds {
		inputs[name] = uint64(fd)
		names = append(names, name)
	}
	if err := guarded.Validate(names...); err != nil {
		return nil, err
	}
	a, err := load(&memories{shared: true}, guarded, inputs)
	if err != nil {
		return nil, err
	}
	defer a.free()
	proc, err := a.fork()
	if err != nil {
		return nil, filtered("clone(2)", err)
	}
	defer proc.Close()
	status, err := proc.WaitContext(ctx)
	if ctx.Err() != nil {
		proc.Signal(unix.SIGKILL)
		proc.Wait()
		return a.results()[1:], cancelled(ctx, nil)
	}
	results := a.results()
	if refused := guarded.refused(results); refused != nil {
		return results[1:], refused
	}
	if i := guarded.Stopped(results); err == nil && i >= 0 {
		return results[1:], guarded.stepError(i, Result{}, os.NewSyscallError("the child was "+status.String(), unix.EIO))
	}
	return results[1:], nil
}

// fork makes the child with a copy of our memory, in which the arena alone is
// shared, so that the results come back.
func (a *arena) fork() (*Process, error) {
	const flags = unix.CLONE_FILES | unix.CLONE_PIDFD
	a.prepare(0, 0)
	a.head.args.childTID = 0
	clone := (*arena).clone
	if a.head.args.flags = flags | unix.CLONE_CLEAR_SIGHAND; !clone3Exists() {
		a.head.args.flags, clone = flags, (*arena).clone2
	}
	pid, err := clone(a)
	if err != nil {
		return nil, err
	}
	return newProcess(pid, int(a.head.pidfd)), nil
}
