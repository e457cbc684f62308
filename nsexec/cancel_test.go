package nsexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A start is cancelled while something hangs: a program of the host lane, and
// one that left a process behind that holds its stderr; the child at each step.
func TestCancelProgram(t *testing.T) {
	for _, script := range []string{"exec sleep 1000", "sleep 0.5 & wait", "trap '' TERM; while :; do sleep 0.1; done"} {
		t.Run(script, func(t *testing.T) {
			defer leaks(t)()
			plan := realPlan("/bin/true")
			plan.Host[2].Argv = []string{"sh", "-c", script}
			wantPromptCancel(t, plan)
			time.Sleep(500 * time.Millisecond) // the orphan ends by itself
		})
	}
}

func wantPromptCancel(t *testing.T, plan *Plan) {
	t.Helper()
	why := errors.New("the user changed her mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	defer timer.Stop()
	begin := time.Now()
	p, report, err := NewSpawner().Start(ctx, plan)
	if took := time.Since(begin); p != nil || !errors.Is(err, why) || took > 500*time.Millisecond || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("%v, %v after %v", p, err, took)
	}
	if report == nil {
		t.Error("no report")
	}
	wantDumpable(t)
}

func TestCancelEveryStep(t *testing.T) {
	defer leaks(t)()
	for n := range realPlan("/bin/true").Child {
		plan := realPlan("/bin/true")
		plan.Child = slices.Insert(plan.Child, n, nanosleep(time.Hour))
		wantPromptCancel(t, plan)
	}
}

// A plan without a release step waits all the same, and the child still finds
// its lifeline whole.
func TestNoReleaseStep(t *testing.T) {
	defer leaks(t)()
	plan := withoutCredentials("/bin/true")
	plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Op == OpRelease })
	plan.Child = slices.Insert(plan.Child, len(plan.Child)-8, nanosleep(50*time.Millisecond))
	if status := run(t, NewSpawner(), plan); status.ExitCode() != 0 {
		t.Error(status)
	}
	plan.Child = slices.Insert(plan.Child, 4, nanosleep(time.Hour))
	wantPromptCancel(t, plan)
}

// A start that waits for another's credentials window can be cancelled too.
func TestCancelWindow(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	slow := realPlan("/bin/true")
	slow.Child = slices.Insert(slow.Child, 12, nanosleep(400*time.Millisecond))
	done := make(chan error, 1)
	go func() { done <- startAndWait(s, slow) }()
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, _, err := s.Start(ctx, realPlan("/bin/true")); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 200*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := NewSpawner().Start(ctx, execPlan("/bin/true")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A program that fails is told with what it said; the other's failure too.
func TestProgramFails(t *testing.T) {
	defer leaks(t)()
	plan := realPlan("/bin/true")
	plan.Host[2].Argv = []string{"sh", "-c", "echo no such range >&2; exit 3"}
	plan.Host = slices.Insert(plan.Host, 3, HostStep{Name: "another", Op: OpExec, Path: "/nonexistent/newgidmap", Argv: []string{"newgidmap"}})
	_, report, err := NewSpawner().Start(t.Context(), plan)
	var program *ProgramError
	if !errors.As(err, &program) || program.Status.Code != 3 || program.Stderr != "no such range" {
		t.Errorf("%v", err)
	}
	if !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "/nonexistent/newgidmap") {
		t.Errorf("the second isn't told: %v", err)
	}
	if report.Host[7].Ret >= 0 {
		t.Errorf("%+v", report.Host[7])
	}
}

// A program that says more than a pipe holds doesn't stop.
func TestProgramTalks(t *testing.T) {
	defer leaks(t)()
	plan := realPlan("/bin/true")
	plan.Host[2].Argv = []string{"sh", "-c", "yes | head -c 300000 >&2; exit 1"}
	_, _, err := NewSpawner().Start(t.Context(), plan)
	if program := new(ProgramError); !errors.As(err, &program) || len(program.Stderr) < 4000 || len(program.Stderr) > 4096 {
		t.Errorf("%.200v", err)
	}
}

// The search of PATH tells what execvp(3) tells: EACCES before ENOENT.
func TestExecSearch(t *testing.T) {
	defer leaks(t)()
	plan := execPlan("/etc/passwd")
	plan.Child[3] = plan.Child[3].Allow("search", unix.EACCES, unix.ENOENT)
	plan.Child = append(plan.Child, Execve("/nonexistent", []string{"x"}, nil).Allow("search", unix.EACCES, unix.ENOENT))
	_, _, err := NewSpawner().Start(t.Context(), plan)
	if step := new(StepError); !errors.Is(err, unix.EACCES) || !errors.As(err, &step) || step.Index != 3 {
		t.Error(err)
	}
}

// Each fd that a start can't have is an error that leaves nothing.
func TestTooManyFiles(t *testing.T) { again(t, "TestInnerTooManyFiles", nil) }

func TestInnerTooManyFiles(t *testing.T) {
	inner(t)
	defer leaks(t)()
	s := NewSpawner()
	run(t, s, realPlan("/bin/true"))
	var had unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &had)
	next, err := unix.Dup(0) // the lowest number that is free
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	failed := 0
	for more := range 12 {
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + more), Max: had.Max})
		err := startAndWait(s, realPlan("/bin/true"))
		if err != nil && !errors.Is(err, unix.EMFILE) {
			t.Errorf("%d more fds: %v", more, err)
		}
		if err != nil {
			failed++
		}
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
	if failed < 4 || failed > 10 {
		t.Errorf("%d of 12 starts failed", failed)
	}
	wantDumpable(t)
}
