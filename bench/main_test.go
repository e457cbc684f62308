package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia.dev/userns"
)

// TestMain prints where the figures come from, and checks that nothing is left.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		fmt.Println(strings.Join(Machine(), "\n"))
	}
	before, err := OwnFootprint()
	code := m.Run()
	after, errAfter := OwnFootprint()
	if err = errors.Join(err, errAfter); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	// The run-time's epoll and event fds come with the first use of os/exec.
	if left := (ManyResult{Before: Footprint{before.FDs + 3, before.Children, before.Mounts, after.RSS}, After: after}).Left(); left != "" {
		fmt.Fprintln(os.Stderr, "left behind: "+left)
		code = 1
	}
	os.Exit(code)
}

// mustRun fails where the environment says that nothing may be skipped.
func mustRun(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// skip names what is missing, also among figures, and also where nothing may be
// skipped: a compiler and the peers are wanted for comparing alone.
func skip(t testing.TB, reason string) {
	t.Helper()
	line, _, _ := strings.Cut(reason, "\n")
	fmt.Printf("# %s skipped: %s\n", t.Name(), line)
	t.Skip(reason)
}

// rootfs is the busybox root of WOLFFIA_ROOTFS, else one made for this test.
func rootfs(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("WOLFFIA_ROOTFS"); dir != "" {
		return dir
	}
	busybox := Find("busybox")
	if busybox == "" {
		mustRun(t, "no busybox, and WOLFFIA_ROOTFS isn't set: there is no root to start in")
	}
	dir := t.TempDir()
	for _, name := range []string{"bin", "dev", "proc", "sys"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("install", "-m", "755", busybox, dir+"/bin/busybox").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"true", "false", "sh", "cat", "sort"} {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mapModes are the maps that this user can have.
func mapModes(t testing.TB) []userns.Mode {
	t.Helper()
	if os.Getuid() == 0 {
		mustRun(t, "root's containers take other steps: run this as an ordinary user")
	}
	return []userns.Mode{userns.Single, userns.Auto}
}

// floor compiles the floor of a variant, and skips by name where it can't.
func floor(t testing.TB, v Variant, root string, args ...string) *Floor {
	t.Helper()
	plan, err := v.Plan(root, args...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := BuildFloor(&plan.Plan, t.TempDir(), "floor", false)
	if errors.Is(err, ErrNoCompiler) {
		skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}
