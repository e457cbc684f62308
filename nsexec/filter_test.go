package nsexec

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// refusals are the errnos with which outer filters answer.
func refusals() []string {
	if raceDetector {
		return []string{"ENOSYS"}
	}
	return []string{"ENOSYS", "EPERM"}
}

// golang/go#62654: pidfds must degrade when a call is missing or blocked.
func TestPidfdCallsFiltered(t *testing.T) {
	for _, errno := range refusals() {
		again(t, "TestInnerWaitByNumber", []string{"WOLFFIA_TEST_FILTER=waitid=" + errno + ",pidfd_open=" + errno})
		again(t, "TestInnerNoSignal", []string{"WOLFFIA_TEST_FILTER=pidfd_send_signal=" + errno + ",kill=EIO"})
		again(t, "TestInnerProbe", []string{"WOLFFIA_TEST_FILTER=waitid=" + errno + ",pidfd_open=" + errno + ",pidfd_send_signal=" + errno + ",clone3=" + errno})
	}
}

func TestInnerWaitByNumber(t *testing.T) {
	inner(t)
	defer leaks(t)()
	s := NewSpawner()
	p := start(t, s, execPlan("/bin/sh", "-c", "exit 7"))
	defer p.Close()
	status, err := p.Wait()
	if err != nil || status.Code != 7 || !p.Weak() {
		t.Errorf("%v, %v, weak %v", status, err, p.Weak())
	}
	if _, err := p.Wait(); err != ErrDone {
		t.Errorf("second Wait: %v", err)
	}
	stolen := start(t, s, execPlan("/bin/true"))
	defer stolen.Close()
	if pid, err := waitAny(0); pid != stolen.PID || err != nil {
		t.Fatal(pid, err)
	}
	if _, err := stolen.Wait(); err != ErrDone {
		t.Errorf("Wait after somebody else's: %v", err)
	}
}

// No pid is signalled: the filter answers kill with EIO, which must not be seen.
func TestInnerNoSignal(t *testing.T) {
	inner(t)
	defer leaks(t)()
	s := NewSpawner()
	p := start(t, s, execPlan("/bin/sh", "-c", "sleep 0.2; exit 3"))
	defer p.Close()
	err := p.Signal(unix.SIGKILL)
	var unsupported *UnsupportedError
	var filtered *FilteredError
	if !errors.As(err, &unsupported) && !errors.As(err, &filtered) || errors.Is(err, unix.EIO) {
		t.Errorf("Signal: %v", err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 3 {
		t.Errorf("the process was signalled: %v, %v", status, err)
	}
	cancelUnsignallable(t, s)
}

// A child that can't be signalled ends by its own program when the start fails.
func cancelUnsignallable(t *testing.T, s *Spawner) {
	t.Helper()
	for n := range len(realPlan("/bin/true").Host) {
		plan := realPlan("/bin/true")
		plan.Fault = &Fault{Lane: LaneHost, Step: n, Errno: unix.EIO}
		if op := plan.Host[n].Op; op == OpDumpable || op == OpRelease || op == OpKeep {
			continue // the program runs by then, and ends by itself
		}
		if _, _, err := s.Start(t.Context(), plan); !errors.Is(err, unix.EIO) {
			t.Errorf("host step %d: %v", n+1, err)
		}
	}
}

func TestInnerProbe(t *testing.T) {
	inner(t)
	defer leaks(t)()
	p := ProbePidfd()
	for what, err := range map[string]error{"clone3": p.Clone3, "pidfd_open": p.Open, "pidfd_send_signal": p.SendSignal, "waitid": p.Wait} {
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Since == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p.Clone != nil {
		t.Errorf("CLONE_PIDFD by clone(2): %v", p.Clone)
	}
}

func TestSupportsPidfd(t *testing.T) {
	defer leaks(t)()
	if err := SupportsPidfd(); err != nil {
		missing(t, err.Error())
	}
}

// youki-dev/youki#2030: clone3 answered by an outer container's filter.
func TestClone3Filtered(t *testing.T) {
	for _, errno := range refusals() {
		again(t, "TestInnerClone2", []string{"WOLFFIA_TEST_FILTER=clone3=" + errno})
		again(t, "TestInnerNoClone", []string{"WOLFFIA_TEST_FILTER=clone3=" + errno + ",clone=" + errno})
	}
}

func TestInnerClone2(t *testing.T) {
	inner(t)
	defer leaks(t)()
	s := NewSpawner()
	for range 3 {
		text, report := output(t, s, realPlan("/bin/cat", "/proc/self/status"))
		if field(text, "SigCgt") != strings.Repeat("0", 16) || field(text, "SigBlk") != strings.Repeat("0", 16) {
			t.Errorf("handlers or a mask were left:\n%s", text)
		}
		if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "clone3") {
			t.Errorf("notes %q", report.Notes)
		}
		if len(report.Child) != len(realPlan("").Child) || !report.Child[0].Ran {
			t.Errorf("results %v", report.Child)
		}
	}
	plan := realPlan("/bin/true")
	plan.Fault = &Fault{Lane: LaneChild, Step: 3, Errno: unix.EIO}
	_, _, err := s.Start(t.Context(), plan)
	wantStep(t, err, plan, unix.EIO)
	plan = execPlan("/bin/true")
	plan.Host[0].Flags = unix.CLONE_NEWTIME
	if _, _, err := s.Start(t.Context(), plan); !errors.As(err, new(*FilteredError)) {
		t.Errorf("CLONE_NEWTIME without clone3: %v", err)
	}
}

func TestInnerNoClone(t *testing.T) {
	inner(t)
	defer leaks(t)()
	_, _, err := NewSpawner().Start(t.Context(), realPlan("/bin/true"))
	var filtered *FilteredError
	if !errors.As(err, &filtered) || !strings.Contains(err.Error(), "Seccomp: 2") {
		t.Errorf("%v", err)
	}
}
