package nsexec

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/test/filter"
)

// TestMain runs the tests and then looks for what they left: fds, children and
// mounts. Some tests run this binary again (see again); then it is the launcher
// that is to be killed, or it puts a seccomp filter above itself first.
func TestMain(m *testing.M) {
	if step := os.Getenv("WOLFFIA_TEST_LAUNCHER"); step != "" {
		launcherMain(step)
		return
	}
	if calls := os.Getenv("WOLFFIA_TEST_FILTER"); calls != "" {
		if err := filter.Install(calls); err != nil {
			fmt.Println("seccomp:", err)
			os.Exit(1)
		}
	}
	os.Exit(runAndLookAround(m))
}

func runAndLookAround(m *testing.M) int {
	mounts := readFile("/proc/self/mountinfo")
	inherited := os.Getenv("WOLFFIA_TEST_INHERITED") != ""
	code := m.Run()
	if code != 0 {
		return code
	}
	if left := children(); !inherited && left != "" {
		fmt.Println("children left:", left)
		code = 1
	}
	if now := readFile("/proc/self/mountinfo"); now != mounts {
		fmt.Printf("mounts before:\n%snow:\n%s", mounts, now)
		code = 1
	}
	for _, fd := range openFDs() {
		if target, _ := os.Readlink("/proc/self/fd/" + fd); strings.HasPrefix(target, "pipe:") && fd > "2" || strings.Contains(target, "[pidfd]") {
			if !inheritedFDs[fd] {
				fmt.Println("fd left:", fd, target)
				code = 1
			}
		}
	}
	return code
}

// inheritedFDs are those that were open before any test.
var inheritedFDs = func() map[string]bool {
	m := map[string]bool{}
	for _, fd := range openFDs() {
		m[fd] = true
	}
	return m
}()

func readFile(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(data)
}

// openFDs are ours but the one that reads the list, and the runtime's own.
func openFDs() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var list []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") {
			list = append(list, e.Name())
		}
	}
	return list
}

// children tells of children of ours, zombies included; "" when there are none.
func children() string {
	pid, err := waitAny(unix.WNOHANG | unix.WNOWAIT)
	if err == unix.ECHILD {
		return ""
	}
	return fmt.Sprintf("pid %d (0: one that runs), %v", pid, err)
}

// leaks has t fail when it leaves an fd or a child.
func leaks(t testing.TB) func() {
	t.Helper()
	before := openFDs()
	return func() {
		t.Helper()
		for _, fd := range openFDs() {
			if !slices.Contains(before, fd) {
				target, _ := os.Readlink("/proc/self/fd/" + fd)
				t.Errorf("fd left: %s %s", fd, target)
			}
		}
		if left := children(); left != "" {
			t.Errorf("children left: %s", left)
		}
	}
}

// missing skips a test for lack of a fact, and fails it where nothing may be skipped.
func missing(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf("WOLFFIA_MUST_RUN is set, but missing: %s", fact)
	}
	t.Skipf("missing: %s", fact)
}

// again runs one test of this binary in a process of its own, as arguments of
// prefix when given, and fails t when that fails.
func again(t *testing.T, test string, env []string, prefix ...string) {
	t.Helper()
	argv := append(prefix, os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), append(env, "WOLFFIA_TEST_INNER=1")...)
	done := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer done.Stop()
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
