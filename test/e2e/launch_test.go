package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

type unixStat = syscall.Stat_t

// deadline is far more than any start takes.
const deadline = 20 * time.Second

// ran is how a command ended.
type ran struct {
	out, err string // stdout and stderr
	code     int    // the exit code, or -1 when a signal ended it
	took     time.Duration
}

// command is what to start, with what around it.
type command struct {
	args  []string
	env   []string
	dir   string
	stdin string
	files []*os.File // fds 3, 4, …
}

// do runs a command to its end.
func (c command) do(t testing.TB) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles, cmd.Stdin = append(os.Environ(), c.env...), c.dir, c.files, strings.NewReader(c.stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errOut, time.Second
	start := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%q didn't end within %v\n%s%s", c.args, deadline, &out, &errOut)
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", c.args, err)
	}
	return ran{out.String(), errOut.String(), cmd.ProcessState.ExitCode(), time.Since(start)}
}

// run is wolffia run with these words.
func run(t testing.TB, args ...string) ran {
	t.Helper()
	return command{args: append([]string{wolffia, "run"}, args...)}.do(t)
}

// shell runs a script in the busybox root, given flags before it.
func shell(t testing.TB, script string, flags ...string) string {
	t.Helper()
	return run(t, inRoot(script, flags...)...).ok(t)
}

func inRoot(script string, flags ...string) []string {
	return append(append([]string{"--rootfs", rootfs}, flags...), "--", "sh", "-c", script)
}

// ok is the output of a command that succeeded without a word on stderr.
func (r ran) ok(t testing.TB) string {
	t.Helper()
	if r.code != 0 || r.err != "" {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	return strings.TrimSuffix(r.out, "\n")
}

// exits checks the exit code and gives stderr back.
func (r ran) exits(t testing.TB, code int) string {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d\n%s%s", r.code, code, r.out, r.err)
	}
	return r.err
}

// refused checks the shape of a launcher's failure: exit 125 within a second, one error whose first line names what
// was wrong, a remedy on the next, and every one of these words.
func (r ran) refused(t testing.TB, words ...string) {
	t.Helper()
	r.exits(t, 125)
	if r.took > time.Second {
		t.Errorf("it took %v", r.took)
	}
	if strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "fatal error") {
		t.Fatalf("a Go traceback:\n%.300s", r.err)
	}
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "wolffia: ") {
		t.Errorf("not an error of wolffia's: %q", r.err)
	}
	if len(lines) > 1 && !strings.HasPrefix(lines[1], "  ") {
		t.Errorf("more than one error: %q", r.err)
	}
	for _, w := range words {
		if !strings.Contains(r.err, w) {
			t.Errorf("no %q in %q", w, r.err)
		}
	}
}

// result is the part of --result that tests look at.
type result struct {
	Started  bool   `json:"started"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal"`
	PID      int    `json:"pid"`
	Weak     bool   `json:"weak_wait"`
	Error    *struct {
		Reason, Code, Lane, Name, Errno, Message string
		Step                                     int
	} `json:"error"`
	Maps   resultMaps   `json:"maps"`
	Notes  []string     `json:"notes"`
	Cgroup resultCgroup `json:"cgroup"`
}

type resultCgroup struct {
	Groups []struct{ Placement, Path string }
	Limits []struct{ Limit, Asked, File, Read, State, Tighter, Cause string }
	Death  struct {
		Reason   string
		OOMKills int `json:"oom_kills"`
		Limit    string
	}
	OOMKills int `json:"oom_kills"`
	Warnings []string
}

type resultMaps struct {
	UID       []string `json:"uid_map"` // INSIDE:OUTSIDE:LENGTH
	GID       []string `json:"gid_map"`
	Setgroups string   `json:"setgroups"`
}

// withResult runs wolffia with --result FILE.
func withResult(t testing.TB, args ...string) (ran, result) {
	t.Helper()
	return command{args: append([]string{wolffia, "run"}, args...)}.withResult(t, 2)
}

// withResult puts --result FILE before the word at.
func (c command) withResult(t testing.TB, at int) (ran, result) {
	t.Helper()
	return c.withResultIn(t, at, t.TempDir())
}

// withResultIn is withResult with the file in a folder that the command's user may write.
func (c command) withResultIn(t testing.TB, at int, dir string) (ran, result) {
	t.Helper()
	file := filepath.Join(dir, "result.json")
	c.args = slices.Insert(slices.Clone(c.args), at, "--result", file)
	r := c.do(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.err)
	}
	var res result
	if err := json.Unmarshal(data, &res); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return r, res
}

// asRole is the test binary in one of its roles, outside a container.
func asRole(role string, args ...string) command {
	self, _ := os.Executable()
	return command{args: append([]string{self}, args...), env: []string{"WOLFFIA_E2E_ROLE=" + role}}
}

// roleInside are the words that run a role as the container's program, in a view of this machine: there the test
// binary finds its libraries when the race detector made it need some.
func roleInside(role string, flags ...string) []string {
	self, _ := os.Executable()
	return append(append(flags, "-v", self+":/mnt/e2e:ro", "-e", "WOLFFIA_E2E_ROLE="+role), "--", "/mnt/e2e")
}

var tokens atomic.Int64

// token is a word that no other command line on this machine has: a number of seconds.
func token() string {
	return fmt.Sprintf("%d.%d%09d", 3000+tokens.Add(1), os.Getpid(), time.Now().Nanosecond())
}

// having lists the processes, zombies not, whose command line has a word.
func having(word string) (pids []int) {
	for pid, p := range processes() {
		if p.state != 'Z' && pid != os.Getpid() && strings.Contains(commandLine(pid), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits up to a second.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within a second: %s", what)
			return
		}
	}
}

// need skips a test by the fact that is missing, or fails it where nothing may be skipped.
func need(t testing.TB, have bool, fact string) {
	t.Helper()
	switch {
	case have:
	case os.Getenv("WOLFFIA_MUST_RUN") != "":
		t.Fatal("missing: " + fact)
	default:
		t.Skip("missing: " + fact)
	}
}

func needTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	need(t, err == nil, "the program "+name)
	return path
}

func write(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// busybox makes a root of busybox alone, for tests that change it.
func busybox(t testing.TB) string {
	t.Helper()
	dir := t.TempDir() + "/root"
	for _, d := range []string{"bin", "etc", "proc", "sys", "dev", "tmp"} {
		if err := os.MkdirAll(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(rootfs+"/bin/busybox", dir+"/bin/busybox"); err != nil {
		write(t, dir+"/bin/busybox", read(t, rootfs+"/bin/busybox"), 0o755)
	}
	for _, name := range []string{"sh", "cat", "ls", "true", "mount", "stat", "sleep", "readlink", "touch", "id", "mkdir", "grep"} {
		symlink(t, "busybox", dir+"/bin/"+name)
	}
	return dir
}

func symlink(t testing.TB, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// exec is the command for tests that have a terminal for it.
func (c command) exec() *exec.Cmd {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	return cmd
}
