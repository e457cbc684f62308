package nsexec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Every step of both lanes fails once: the error names it, nothing is left, and
// the next start works.
func TestFaultEveryStep(t *testing.T) {
	s := NewSpawner()
	plan := realPlan("/bin/sleep", "1000")
	for _, lane := range []struct {
		name  string
		steps int
	}{{LaneHost, len(plan.Host)}, {LaneChild, len(plan.Child)}} {
		for n := range lane.steps {
			t.Run(fmt.Sprintf("%s %d", lane.name, n+1), func(t *testing.T) {
				defer leaks(t)()
				plan := realPlan("/bin/sleep", "1000")
				plan.Fault = &Fault{Lane: lane.name, Step: n, Errno: unix.EIO}
				p, report, err := s.Start(t.Context(), plan)
				if p != nil {
					t.Fatal("the start succeeded")
				}
				wantStep(t, err, plan, unix.EIO)
				if len(report.Host) != len(plan.Host) || len(report.Child) != len(plan.Child) {
					t.Errorf("%d and %d results", len(report.Host), len(report.Child))
				}
				wantDumpable(t)
			})
		}
	}
	if status := run(t, s, realPlan("/bin/true")); status.ExitCode() != 0 {
		t.Error(status)
	}
}

func wantDumpable(t testing.TB) {
	t.Helper()
	if flag, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); flag != 1 || err != nil {
		t.Fatalf("dumpable %d, %v: the next child's map can't be written", flag, err)
	}
}

func TestFaultText(t *testing.T) {
	plan := execPlan("/bin/true")
	plan.Fault = &Fault{Lane: LaneChild, Step: 1, Errno: unix.EPERM}
	if text := plan.String(); !strings.HasSuffix(text, "fault: child step 2 returns EPERM, and no call is made\n") {
		t.Error(text)
	}
}

// An injected errno that the policy allows lets the program go on.
func TestFaultAllowed(t *testing.T) {
	defer leaks(t)()
	plan := realPlan("/bin/true")
	plan.Child[1] = plan.Child[1].Allow("a test", unix.EPERM)
	plan.Fault = &Fault{Lane: LaneChild, Step: 1, Errno: unix.EPERM}
	p, report, err := NewSpawner().Start(t.Context(), plan)
	if err != nil || report.Child[1].Errno() != unix.EPERM {
		t.Fatal(err)
	}
	defer p.Close()
	p.Wait()
}

// launcherMain is a launcher that is to be killed: its child is slow before
// the given step.
func launcherMain(text string) {
	step, _ := strconv.Atoi(text)
	plan := realPlan("/bin/sleep", "1000")
	plan.Child = slices.Insert(plan.Child, min(step, len(plan.Child)-1), nanosleep(150*time.Millisecond))
	if step == len(plan.Child)-1 { // the end: it executed its program
		plan = realPlan("/bin/sleep", "1000")
	}
	s := NewSpawner()
	if os.Getenv("WOLFFIA_TEST_OVERLAP") != "" { // other children hold copies of our lifeline
		for range 4 {
			go s.Start(bg, realPlan("/bin/sleep", "1000"))
		}
	}
	fmt.Println("starting")
	_, _, err := s.Start(bg, plan)
	fmt.Println("started", err)
	time.Sleep(time.Minute)
}

// containers/bubblewrap#633, containers/bubblewrap#700: whenever the launcher
// is killed, nothing of it is left a second later. Its orphans become children
// of this process (PR_SET_CHILD_SUBREAPER), which sees and reaps each.
func TestLauncherKilledAtEveryStep(t *testing.T) {
	defer leaks(t)()
	adopt(t)
	for step := range len(realPlan("/bin/true").Child) + 1 {
		for _, overlap := range []string{"", "1"} {
			killLauncher(t, step, overlap, 60*time.Millisecond)
		}
	}
}

func TestLauncherKilledEarly(t *testing.T) {
	defer leaks(t)()
	adopt(t)
	for i := range 60 {
		killLauncher(t, 99, "1", time.Duration(i)*100*time.Microsecond)
	}
}

func adopt(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

func killLauncher(t *testing.T, step int, overlap string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_LAUNCHER="+strconv.Itoa(step), "WOLFFIA_TEST_OVERLAP="+overlap)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout.Read(make([]byte, 64)) // "starting"
	time.Sleep(after)
	cmd.Process.Kill()
	cmd.Wait()
	if left := reapOrphans(time.Second); left != "" {
		t.Errorf("step %d, overlap %q: a second after the launcher's death: %s", step, overlap, left)
		killOrphans()
	}
}

// reapOrphans waits until this process has no child, at most for a time.
func reapOrphans(most time.Duration) string {
	for end := time.Now().Add(most); time.Now().Before(end); {
		switch pid, err := waitAny(unix.WNOHANG); {
		case errors.Is(err, unix.ECHILD):
			return ""
		case pid == 0:
			time.Sleep(time.Millisecond)
		}
	}
	return children()
}

// killOrphans ends what this process adopted and hasn't reaped, so that these
// pids are still its children's.
func killOrphans() {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		for _, pid := range strings.Fields(readFile("/proc/self/task/" + task.Name() + "/children")) {
			n, _ := strconv.Atoi(pid)
			unix.Kill(n, unix.SIGKILL)
		}
	}
	reapOrphans(time.Second)
}
