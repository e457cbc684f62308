package container

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Container is a running container.
type Container struct {
	Plan    *Plan
	Process *nsexec.Process
	Report  *nsexec.Report

	Certificate *cgroup.Certificate // how it died, once it was waited for; nil without a cgroup of its own

	group   *group
	meant   meantSignal
	release func() error // gives locks and folders of the root back
}

// Exit codes of a start that failed, as the shell and Docker use them.
const (
	ExitLauncher      = 125 // the launcher failed; the program never ran
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// StartError is a start that failed. Code is the exit status to give.
type StartError struct {
	Code   int
	Err    error
	Plan   *Plan
	Report *nsexec.Report // what each step did, as far as it came
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Start executes a plan. The container runs when it returns; Wait for its end.
// The caller's stdin, stdout and stderr are the container's.
func Start(ctx context.Context, s *nsexec.Spawner, plan *Plan) (*Container, error) {
	release, err := plan.prepare(ctx, s)
	if err != nil {
		return nil, &StartError{Code: ExitLauncher, Err: err}
	}
	group, err := newGroup(plan)
	if err != nil {
		return nil, &StartError{Code: ExitLauncher, Err: errors.Join(err, release()), Plan: plan}
	}
	maker := &usernsMaker{}
	run := plan.Plan
	run.OpenUserns = maker.open
	if group != nil {
		run.Cgroup = group
	}
	process, report, err := s.Start(ctx, &run)
	if report != nil {
		report.Notes = append(report.Notes, maker.notes...)
	}
	if err != nil {
		err = explain(plan, report, err)
		return nil, &StartError{Code: exitCode(plan, err), Err: errors.Join(err, group.remove(), release()), Plan: plan, Report: report}
	}
	report.Notes = append(report.Notes, fallbacks(plan, report)...)
	group.begin()
	return &Container{Plan: plan, Process: process, Report: report, group: group, release: release}, nil
}

// usernsMaker makes the namespaces of mounts' own id maps, one after the other.
type usernsMaker struct{ notes []string }

func (u *usernsMaker) open(ctx context.Context, uidMap, gidMap string) (int, error) {
	uid, err1 := userns.ParseIDMap(uidMap)
	gid, err2 := userns.ParseIDMap(gidMap)
	opener, err3 := userns.NewOpener()
	if err := errors.Join(err1, err2, err3); err != nil {
		return -1, err
	}
	fd := -1
	maps, err := opener.Prepare(uid, gid)
	if err == nil {
		fd, err = opener.OpenRaw(ctx, maps)
	}
	u.notes = append(u.notes, opener.Report().Notes...)
	return fd, errors.Join(err, opener.Close())
}

// fallbacks tells of a step that was allowed to fail, did, and left the
// container with less than it should have.
func fallbacks(plan *Plan, report *nsexec.Report) []string {
	var notes []string
	for i, r := range report.Child {
		if errno := r.Errno(); errno != 0 && plan.Child[i].Call == unix.SYS_KEYCTL {
			notes = append(notes, "the container has the caller's session keyring and can read its keys: keyctl(KEYCTL_JOIN_SESSION_KEYRING) gave "+
				errnoText(errno)+" (keyrings(7); /proc/sys/kernel/keys/maxkeys)")
		}
	}
	return notes
}

// Wait blocks until the container ends, and removes what it leaves.
func (c *Container) Wait() (nsexec.ExitStatus, error) {
	status, err := c.Process.Wait()
	if err == nil {
		c.Certificate = c.group.certify(status, c.endedByUs(status))
	}
	return status, errors.Join(err, c.Close())
}

// Warnings are what a person should see once the container runs: a limit that
// isn't in force, or isn't what is reached first. What was known when it was
// planned is among the plan's own.
func (c *Container) Warnings() []string {
	if c.group == nil {
		return nil
	}
	var list []string
	for _, w := range c.group.warnings {
		if !slices.ContainsFunc(c.Plan.Cgroup.Ledger, func(e cgroup.Entry) bool { return e.State == cgroup.NotInForce && strings.HasSuffix(w, e.String()) }) {
			list = append(list, w)
		}
	}
	return list
}

// Ledger has an entry for each limit that was asked for.
func (c *Container) Ledger() cgroup.Ledger {
	if c.group == nil {
		return nil
	}
	return c.group.Ledger
}

// Close gives back what the container held on the host. Only after its end.
func (c *Container) Close() error {
	if c.release == nil {
		return nil
	}
	release := c.release
	c.release = nil
	return errors.Join(c.group.close(), release(), c.Process.Close())
}

// exitCode tells a program that can't be executed from a launcher that failed.
func exitCode(plan *Plan, err error) int {
	step := execFailure(plan, err)
	if step == nil {
		return ExitLauncher
	}
	switch step.Errno {
	case unix.ENOENT, unix.ENOTDIR:
		return ExitNotFound
	case unix.EACCES, unix.ENOEXEC, unix.EISDIR, unix.ELIBBAD, unix.ETXTBSY, unix.EPERM:
		return ExitNotExecutable
	}
	return ExitLauncher
}

// execFailure is the failure of an execve of the child lane, if err is one.
func execFailure(plan *Plan, err error) *nsexec.StepError {
	var step *nsexec.StepError
	if errors.As(err, &step) && step.Lane == "child" && step.Cause == nil && plan.Child[step.Index].Call == unix.SYS_EXECVE {
		return step
	}
	return nil
}

// explain adds cause and remedy to a step's error.
func explain(plan *Plan, report *nsexec.Report, err error) error {
	var step *nsexec.StepError
	if errors.As(err, &step) && step.Hint == "" {
		step.Hint = Hint(step, plan, report)
	}
	return err
}

// describeProgram names the program and where it was looked for.
func describeProgram(plan *Plan) string {
	program := plan.Spec.Process.Args[0]
	if strings.Contains(program, "/") {
		return strconv.Quote(program)
	}
	return strconv.Quote(program) + ", looked for as " + strings.Join(candidates(program, plan.Spec.Process.Env), ", ")
}
