package nsexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Plans that the tests start.

// execPlan executes a program in no new namespace.
func execPlan(argv ...string) *Plan {
	return &Plan{
		Host: []HostStep{{Name: "make the child", Op: OpClone}, {Name: "wait for execve", Op: OpRelease}},
		Child: Program{
			deathSignal(),
			CloseRange(3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close all else"),
			UnblockSignals().Named("unblock signals"),
			Execve(argv[0], argv, os.Environ()).Named("execute"),
		},
	}
}

func deathSignal() Step {
	return Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, Const("SIGKILL", uint64(unix.SIGKILL))).Named("die with the launcher")
}

const realFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// realPlan has all that a container's plan has, with a single-id map: gates,
// maps, mounts, slots, a credentials window, execve.
func realPlan(argv ...string) *Plan {
	return &Plan{Host: realHost(), Child: realChild(argv), DropsDumpable: true}
}

func realHost() []HostStep {
	write := func(file, data string) HostStep {
		return HostStep{Name: "write " + file, Op: OpWrite, Path: "/proc/" + ChildPID + "/" + file, Data: data}
	}
	return []HostStep{
		{Name: "lifeline", Op: OpPipe},
		{Name: "make the child", Op: OpClone, Flags: realFlags},
		{Name: "a program", Op: OpExec, Path: "/bin/sh", Argv: []string{"sh", "-c", "test -d /proc/$0", ChildPID}},
		write("uid_map", fmt.Sprintf("0 %d 1\n", os.Getuid())),
		write("setgroups", "deny"),
		write("gid_map", fmt.Sprintf("0 %d 1\n", os.Getgid())),
		{Name: "wait for the program", Op: OpJoin, Data: "sh"},
		{Name: "open the gate", Op: OpGate, Data: GateMaps},
		{Name: "open the gate", Op: OpGate, Data: GateCredentials},
		{Name: "wait for execve", Op: OpRelease},
		{Name: "keeper", Op: OpKeep},
		{Name: "dumpable again", Op: OpDumpable},
	}
}

func realChild(argv []string) Program {
	lifeline := Int(3)
	p := Program{
		deathSignal(),
		Setrlimit("RLIMIT_CORE", unix.RLIMIT_CORE, 0, coreLimit().Max).Named("no core dump"),
		Dup3(Slot(Lifeline), lifeline, unix.O_CLOEXEC).Named("keep the lifeline").Allow("it has this number already", unix.EINVAL),
		CloseRange(4, ^uint32(0), 0).Named("close all other fds"),
		Setsid().Named("new session"),
		WaitGate(lifeline, GateMaps),
		Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "").Named("no propagation"),
		Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "").Named("a tmpfs"),
		Openat(AtCWD(), "/tmp", unix.O_PATH|unix.O_DIRECTORY, 0).As("tmp").Named("open it"),
		Mkdirat(Slot("tmp"), "folder", 0o755).Named("make a folder"),
		Sethostname("wolffia").Named("hostname"),
		WaitGate(lifeline, GateCredentials),
		Setresgid(0).Named("become gid 0"),
		Setresuid(0).Named("become uid 0"),
		Prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, Int(0)).Named("clear the dumpable flag, as another uid would"),
		deathSignal(),
	}
	p = append(p, CheckLifeline(lifeline)...)
	return append(p,
		Setrlimit("RLIMIT_CORE", unix.RLIMIT_CORE, coreLimit().Cur, coreLimit().Max).Named("core dumps as before"),
		CloseRange(3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close the rest at execve"),
		UnblockSignals().Named("unblock signals"),
		Execve(argv[0], argv, os.Environ()).Named("execute"))
}

func coreLimit() (core unix.Rlimit) {
	unix.Getrlimit(unix.RLIMIT_CORE, &core)
	return core
}

// nanosleep is a step that takes its time.
func nanosleep(d time.Duration) Step {
	return call(unix.SYS_NANOSLEEP, Words(literal(d.String()), uint64(d/time.Second), uint64(d%time.Second)), Null()).Named("sleep")
}

// start starts a plan that must work.
func start(t testing.TB, s *Spawner, plan *Plan) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, _, err := s.Start(ctx, plan)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run starts a plan and waits for the program's end.
func run(t testing.TB, s *Spawner, plan *Plan) ExitStatus {
	t.Helper()
	p := start(t, s, plan)
	defer p.Close()
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// output runs a plan and returns what its program wrote.
func output(t testing.TB, s *Spawner, plan *Plan) (string, *Report) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	plan.Child = slices.Insert(plan.Child, 0, Dup3(Int(w.Fd()), Int(1), 0).Named("stdout"))
	p, report, err := s.Start(t.Context(), plan)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	text, _ := io.ReadAll(r)
	if status, err := p.Wait(); err != nil || status.ExitCode() != 0 {
		t.Errorf("%v, %v", status, err)
	}
	report.Child = report.Child[1:]
	return string(text), report
}

// field is the value of one line of /proc/PID/status.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// wantStep checks that err is the failure of the plan's faulty step.
func wantStep(t testing.TB, err error, plan *Plan, errno unix.Errno) {
	t.Helper()
	var step *StepError
	if !errors.As(err, &step) || !errors.Is(err, errno) {
		t.Errorf("got %v, want a StepError with %s", err, ErrnoName(errno))
		return
	}
	name, total := "", 0
	if f := plan.Fault; f.Lane == LaneHost {
		name, total = plan.Host[f.Step].Name, len(plan.Host)
	} else {
		name, total = plan.Child[f.Step].Name, len(plan.Child)
	}
	if step.Lane != plan.Fault.Lane || step.Index != plan.Fault.Step || step.Name != name || step.Total != total || step.Call == "" {
		t.Errorf("got %+v, want %v", step, plan.Fault)
	}
}

func TestPlanValidate(t *testing.T) {
	for want, spoil := range map[string]func(*Plan){
		"no clone step":             func(p *Plan) { p.Host, p.DropsDumpable = p.Host[:1], false },
		"isn't made yet":            func(p *Plan) { p.Host[1], p.Host[3] = p.Host[3], p.Host[1] },
		"the child is made already": func(p *Plan) { p.Host = append(p.Host, HostStep{Op: OpClone}) },
		"a gate needs the lifeline": func(p *Plan) { p.Host = p.Host[1:] },
		"doesn't open this gate":    func(p *Plan) { p.Host = slices.Delete(p.Host, 7, 8) },
		"nobody waits at the gate":  func(p *Plan) { p.Child = slices.Delete(p.Child, 11, 12) },
		"no join step":              func(p *Plan) { p.Host = slices.Delete(p.Host, 6, 7) },
		"a release step before it":  func(p *Plan) { p.Host = slices.Delete(p.Host, 9, 10) },
		"drops the dumpable flag":   func(p *Plan) { p.Host = p.Host[:10] },
		"no such step":              func(p *Plan) { p.Fault = &Fault{LaneChild, 99, unix.EIO} },
		"lane is host or child":     func(p *Plan) { p.Fault = &Fault{"", 1, unix.EIO} },
		"needs an errno":            func(p *Plan) { p.Fault = &Fault{LaneHost, 1, 0} },
		"contains a NUL byte":       func(p *Plan) { p.Child = append(p.Child, Execve("/x", []string{"a\x00b"}, nil)) },
		"before it is filled":       func(p *Plan) { p.Child = append(p.Child, Close(Slot("nothing"))) },
		"slot userns1 is used before": func(p *Plan) {
			p.Host = slices.Insert(p.Host, 1, HostStep{Op: OpOpenTree, Save: "tree"}, HostStep{Op: OpIDMap, Save: "tree", Userns: "userns1"})
		},
		"slot tree is used before": func(p *Plan) { p.Host = slices.Insert(p.Host, 1, HostStep{Op: OpPropagation, Save: "tree"}) },
		"its slot is filled twice": func(p *Plan) {
			p.Host = slices.Insert(p.Host, 1, HostStep{Op: OpUserns, Save: "ns"}, HostStep{Op: OpUserns, Save: "ns"})
		},
		"filled twice": func(p *Plan) { p.Child = append(p.Child, Setsid().As("tmp")) },
	} {
		plan := realPlan("/bin/true")
		spoil(plan)
		err := plan.Validate()
		if !errors.As(err, new(*InvalidError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := realPlan("/bin/true").Validate(); err != nil {
		t.Error(err)
	}
}

// A plan with a namespace to open needs somebody who can.
func TestPlanWithoutOpener(t *testing.T) {
	defer leaks(t)()
	plan := execPlan("/bin/true")
	plan.Host = slices.Insert(plan.Host, 0, HostStep{Name: "namespace", Op: OpUserns, Save: "ns"})
	if _, _, err := NewSpawner().Start(bg, plan); !errors.Is(err, errNoOpener) {
		t.Error(err)
	}
}

// A word of the user's that is, or contains, CHILD is left alone.
func TestChildPIDOnlyWhereMeant(t *testing.T) {
	l := &launch{child: &Process{PID: 42}}
	for in, want := range map[string]string{
		"CHILD": "42", "/proc/CHILD/uid_map": "/proc/42/uid_map", "/proc/CHILD/root/CHILD": "/proc/42/root/CHILD",
		"/home/CHILD/x": "/home/CHILD/x", "CHILDREN": "CHILDREN",
	} {
		if got := l.expand(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

var bg = context.Background()
