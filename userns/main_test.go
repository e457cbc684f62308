package userns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/test/filter"
)

// TestMain serves as the child of TestNestedSplit when its variable is set, and otherwise runs the tests and then
// looks for children and descriptors that they left.
func TestMain(m *testing.M) {
	if os.Getenv("WOLFFIA_TEST_NESTED") != "" {
		nestedMain()
		return
	}
	if rules := os.Getenv("WOLFFIA_TEST_FILTER"); rules != "" {
		if err := filter.Install(rules); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	before := openFDs()
	code := m.Run()
	if after := openFDs(); code == 0 && after > before+2 { // the runtime's epoll and event descriptors
		fmt.Printf("descriptors leaked: %d before, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// missing skips a test for lack of a fact, and fails it where nothing may be skipped.
func missing(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf("WOLFFIA_MUST_RUN is set, but missing: %s", fact)
	}
	t.Skipf("missing: %s", fact)
}

// rootOnly leaves a test to the run as root.
func rootOnly(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("runs in the run as root: it needs ids that an ordinary user can't map")
	}
}

func mustMap(t testing.TB, text string) IDMap {
	t.Helper()
	m, err := ParseExtents(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantPlanError returns err as a *PlanError with that reason and all of those words.
func wantPlanError(t testing.TB, err error, reason Reason, words ...string) {
	t.Helper()
	var fault *PlanError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a *PlanError", err)
	}
	if fault.Reason != reason {
		t.Errorf("reason %q, want %q: %v", fault.Reason, reason, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error doesn't say %q:\n%v", word, err)
		}
	}
}

// leaks has t fail when it leaves an fd or a child.
func leaks(t testing.TB) func() {
	t.Helper()
	before := openFDs()
	return func() {
		t.Helper()
		if after := openFDs(); after > before+2 { // the runtime's epoll and event descriptors
			t.Errorf("%d fds before, %d after", before, after)
		}
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); err != unix.ECHILD {
			t.Errorf("a child is left: %d, %v", pid, err)
		}
	}
}

// again runs one test of this binary in a process of its own and fails t when that fails.
func again(t *testing.T, test string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), append(env, "WOLFFIA_TEST_INNER=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%s %v: %v\n%s", test, env, err, out)
	}
}

// inner skips a test that only again runs.
func inner(t *testing.T) {
	t.Helper()
	if os.Getenv("WOLFFIA_TEST_INNER") == "" {
		t.Skip("runs in a process that another test starts")
	}
}
