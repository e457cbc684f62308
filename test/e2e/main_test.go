package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	wolffia string // the binary under test
	rootfs  string // a busybox root of this user's
)

func TestMain(m *testing.M) {
	if role := os.Getenv("WOLFFIA_E2E_ROLE"); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	unix.Umask(0o022)
	work, err := os.MkdirTemp("", "wolffia-e2e.")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(work)
	if err := setUp(work); err != nil {
		return fail(err)
	}
	before, err := look()
	if err != nil {
		return fail(err)
	}
	code := m.Run()
	if left := before.leftOver(); left != "" {
		fmt.Fprintf(os.Stderr, "FAIL: the tests left behind or changed:\n%s", left)
		return 1
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

func setUp(work string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	os.Setenv("TMPDIR", work+"/tmp") // ours alone: whatever is left in it is the launcher's
	if err := errors.Join(os.Chmod(work, 0o755), os.Mkdir(work+"/tmp", 0o755)); err != nil {
		return err
	}
	if wolffia = os.Getenv("WOLFFIA_BIN"); wolffia == "" {
		wolffia = work + "/wolffia"
		build := exec.Command("go", "build", "-buildvcs=false", "-o", wolffia, "wolffia.dev/cmd/wolffia")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if rootfs = os.Getenv("WOLFFIA_ROOTFS"); rootfs == "" {
		rootfs = work + "/rootfs"
		if out, err := exec.Command("bash", "../rootfs.sh", rootfs).CombinedOutput(); err != nil {
			return fmt.Errorf("rootfs.sh: %w\n%s", err, out)
		}
	}
	return nil
}

// traces is what a launcher could leave behind.
type traces struct {
	mounts, files, root []string
	fds                 int
}

func look() (t traces, err error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return t, err
	}
	t.mounts = strings.Split(string(data), "\n")
	for _, pattern := range []string{os.TempDir() + "/*", os.Getenv("HOME") + "/.local/share/wolffia/*/*",
		"/var/tmp/wolffia-" + strconv.Itoa(os.Getuid()) + "*"} {
		found, _ := filepath.Glob(pattern)
		t.files = append(t.files, found...)
	}
	t.root, err = listTree(rootfs)
	fds, _ := os.ReadDir("/proc/self/fd")
	t.fds = len(fds)
	return t, err
}

// listTree is each file of a folder with what a container could change about it.
func listTree(dir string) (list []string, err error) {
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := info.Sys().(*unixStat)
		list = append(list, fmt.Sprint(path, info.Mode(), info.Size(), st.Uid, st.Gid, info.ModTime().UnixNano()))
		return nil
	})
	return list, err
}

// leftOver waits a second for the ends of processes that are on their way.
func (before traces) leftOver() string {
	var text strings.Builder
	for range 50 {
		reap()
		if len(descendants()) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, pid := range descendants() {
		fmt.Fprintf(&text, "process %d: %s\n", pid, commandLine(pid))
	}
	now, err := look()
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	for _, list := range [][2][]string{{before.mounts, now.mounts}, {before.files, now.files}, {before.root, now.root}} {
		for _, line := range difference(list[0], list[1]) {
			fmt.Fprintln(&text, line)
		}
	}
	if now.fds > before.fds {
		fmt.Fprintf(&text, "%d fds of the test process\n", now.fds-before.fds)
	}
	return text.String()
}

// difference marks what is in one list only: - is gone, + is new.
func difference(a, b []string) (lines []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			lines = append(lines, "- "+x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			lines = append(lines, "+ "+x)
		}
	}
	return lines
}

// reap collects orphans that ended. Only when no test waits for a child.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// descendants are our children, their children and so on, zombies too.
func descendants() (pids []int) {
	parent := map[int]int{}
	for pid, st := range processes() {
		parent[pid] = st.parent
	}
	for pid := range parent {
		for p := parent[pid]; p != 0; p = parent[p] {
			if p == os.Getpid() {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

type process struct {
	parent int
	state  byte
}

// processes reads /proc/PID/stat of all (proc_pid_stat(5)).
func processes() map[int]process {
	all := map[int]process{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, rest, _ := strings.Cut(string(data[max(bytes.LastIndexByte(data, ')'), 0):]), " ")
		if f := strings.Fields(rest); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			all[pid] = process{parent, f[0][0]}
		}
	}
	return all
}

func commandLine(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(data), "\x00", " ")
}
