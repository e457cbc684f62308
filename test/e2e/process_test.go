package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started is a launcher that is running.
type started struct {
	*exec.Cmd
	out *bufio.Reader
	err *bytes.Buffer
}

// start begins a command and returns at once. It is killed when the test ends.
func start(t testing.TB, c command) *started {
	t.Helper()
	s := &started{Cmd: exec.Command(c.args[0], c.args[1:]...), err: new(bytes.Buffer)}
	s.Env, s.Stderr = append(os.Environ(), c.env...), s.err
	s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(pipe)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(deadline, func() { s.Process.Kill() })
	t.Cleanup(func() {
		timer.Stop()
		s.Process.Kill()
		s.Wait()
	})
	return s
}

func (s *started) line(t testing.TB) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, s.err)
	}
	return strings.TrimSpace(line)
}

// end waits for it and gives the rest of its output and its exit code.
func (s *started) end() (string, int) {
	var rest strings.Builder
	s.out.WriteTo(&rest)
	s.Wait()
	return rest.String(), s.ProcessState.ExitCode()
}

// netblue30/firejail#4474 (255 for a signal), netblue30/firejail#7081 (a fixed delay, 0 for every code),
// containers/bubblewrap#257 (the launcher's failure and the program's can't be told apart)
func TestExitCode(t *testing.T) {
	crash := map[string]int{"amd64": 139, "arm64": 132}[runtime.GOARCH] // SIGSEGV, SIGILL
	dir := t.TempDir()
	write(t, dir+"/crash", elf(""), 0o755)
	write(t, dir+"/plain", "echo\n", 0o644)
	write(t, dir+"/garbage", "\x01\x02\x03", 0o755)
	write(t, dir+"/orphan", "#!/no/such/interpreter\n", 0o755)
	write(t, dir+"/loader", elf("/no/such/loader"), 0o755)
	write(t, dir+"/script", "#!/bin/sh\nexit $(($# + 40))\n", 0o755)
	for _, test := range []struct {
		flags, program string
		code           int
		signal, says   string
	}{
		{"", "true", 0, "", ""},
		{"", "false", 1, "", ""},
		{"", "sh -c exit\t7", 7, "", ""},
		{"", "sh -c exit\t255", 255, "", ""},
		{"", "sh -c exit\t125", 125, "", ""},
		{"", "/mnt/script a b", 42, "", ""},
		{"-w /mnt", "./script", 40, "", ""},
		{"", "/mnt/crash", crash, unix.SignalName(unix.Signal(crash - 128)), ""},
		{"--share pid", "sh -c kill\t-ABRT\t$$", 134, "SIGABRT", ""},
		{"--share pid", "sh -c kill\t-KILL\t$$", 137, "SIGKILL", ""},
		{"--share pid", "sh -c kill\t-TERM\t$$", 143, "SIGTERM", ""},
		{"", "no-such-program", 127, "", `no such program in the container: "no-such-program", looked for as`},
		{"", "/no/such/program", 127, "", "no such program in the container"},
		{"", "/bin/busybox/x", 127, "", "ENOTDIR"},
		{"", "/mnt/orphan", 127, "", "/mnt/orphan is there, but not what it needs to run: the interpreter"},
		{"", "/mnt/loader", 127, "", "/mnt/loader is there, but not what it needs to run"},
		{"-e PATH=/mnt:/bin", "plain", 126, "", "EACCES"},
		{"", "/mnt/plain", 126, "", "isn't executable"},
		{"", "/mnt", 126, "", "EACCES"},
		{"", "/mnt/garbage", 126, "", "ENOEXEC"},
		{"--rootfs /no/such/root", "true", 125, "", "the root (--rootfs): /no/such/root: no such file or directory (ENOENT)"},
	} {
		t.Run(strings.TrimSpace(test.flags+" "+test.program), func(t *testing.T) {
			args := append([]string{"--rootfs", rootfs, "-v", dir + ":/mnt"}, strings.Fields(test.flags)...)
			for _, word := range strings.Fields(strings.ReplaceAll(test.program, "\t", "·")) {
				args = append(args, strings.ReplaceAll(word, "·", " "))
			}
			r, res := withResult(t, args...)
			if msg := r.exits(t, test.code); !strings.Contains(msg, test.says) || (test.says == "") != (msg == "") {
				t.Errorf("stderr %q, want %q", msg, test.says)
			}
			if launcher := test.says != ""; res.Started == launcher || (res.Error != nil) != launcher {
				t.Errorf("the result says %+v", res)
			}
			if res.ExitCode != test.code || res.Signal != test.signal {
				t.Errorf("the result has code %d and signal %q", res.ExitCode, res.Signal)
			}
			if r.took > 2*time.Second {
				t.Errorf("it took %v", r.took)
			}
		})
	}
}

// A result goes to a descriptor too, and what can't be written is found before anything runs.
func TestResultDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ended := command{args: append([]string{wolffia, "run", "--result", "3"}, inRoot("test ! -e /proc/self/fd/3; exit 125")...), files: []*os.File{w}}.do(t)
	ended.exits(t, 125)
	w.Close()
	var text bytes.Buffer
	text.ReadFrom(r)
	if !strings.Contains(text.String(), `"started":true`) || !strings.Contains(text.String(), `"exit_code":125`) {
		t.Errorf("result %q", &text)
	}
	for _, to := range []string{"77", "/no/such/folder/result", "/proc/version"} {
		mark := t.TempDir()
		run(t, append([]string{"--result", to, "-v", mark + ":/mnt"}, inRoot("touch /mnt/ran")...)...).refused(t, to)
		if _, err := os.Stat(mark + "/ran"); err == nil {
			t.Errorf("--result %s: it ran all the same", to)
		}
	}
}

// containers/bubblewrap#633 and #700: the container survived a launcher that was killed early. containerd/containerd#2004:
// killed at each set-up step.
func TestKilledLauncherLeavesNothing(t *testing.T) {
	for i := range 100 {
		word := token()
		cmd := exec.Command(wolffia, inRootRun("exec sleep "+word)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(rand.Int64N(5_000_000))
		if i%4 == 3 { // when it certainly runs
			after += 10 * time.Millisecond
		}
		time.Sleep(after)
		cmd.Process.Kill()
		cmd.Wait()
		eventually(t, fmt.Sprintf("the end of a container whose launcher was killed after %v", after), func() bool {
			return len(having(word)) == 0
		})
	}
	reap()
	eventually(t, "the end of all helpers", func() bool { reap(); return len(descendants()) == 0 })
}

func inRootRun(script string, flags ...string) []string {
	return append([]string{"run"}, inRoot(script, flags...)...)
}

func TestStdin(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("0123456789abcde\n", 1<<16)
	c := command{args: append([]string{wolffia}, inRootRun("cat")...), stdin: many}
	if out := c.do(t); out.out != many || out.code != 0 {
		t.Errorf("%d of %d bytes came through, exit %d", len(out.out), len(many), out.code)
	}
	c = command{args: append([]string{wolffia}, inRootRun("cat; echo end; echo error >&2")...)}
	if out := c.do(t); out.out != "end\n" || out.err != "error\n" {
		t.Errorf("at end of file: %+v", out)
	}
	// A pipe whose reader is gone ends a writer as it does outside.
	c = command{args: []string{"sh", "-c", `"$0" "$@" | head -n 1`, wolffia}}
	c.args = append(c.args, inRootRun("yes; echo $? >&2")...)
	if out := c.do(t); out.out != "y\n" || out.err != "141\n" {
		t.Errorf("into a closed pipe: %+v", out)
	}
}

// Descriptors 0, 1 and 2 that aren't open must not become something of the launcher's.
func TestClosedStdio(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `"$0" "$@" <&- >&- 2>&-`
	command{args: append([]string{"sh", "-c", script, wolffia, "run", "-v", dir + ":/mnt"},
		inRoot("ls -l /proc/$$/fd >/mnt/out; true")...)}.do(t).ok(t)
	for _, line := range strings.Split(strings.TrimSpace(read(t, dir+"/out")), "\n")[1:] {
		if _, to, _ := strings.Cut(line, " -> "); to != "/dev/null" && to != "/mnt/out" {
			t.Errorf("fd of the program: %s", line)
		}
	}
}

// Orphans belong to the container's first process, and end with it.
func TestOrphans(t *testing.T) {
	t.Parallel()
	word := token()
	out := shell(t, "(sleep 0.05 &); (sleep "+word+" & echo $! >/tmp/pid); sleep 0.2; grep -l '^State:.Z' /proc/[0-9]*/status; "+
		"grep PPid /proc/$(cat /tmp/pid)/status")
	if out != "PPid:\t1" {
		t.Errorf("zombies, or an orphan elsewhere: %q", out)
	}
	eventually(t, "the end of an orphan", func() bool { return len(having(word)) == 0 })
}

// containers/bubblewrap#146: children inherited over an exec confused the launcher.
func TestInheritedChildren(t *testing.T) {
	t.Parallel()
	script := `sleep 0.1 & (exit 3) & exec "$0" "$@"`
	r := command{args: append([]string{"bash", "-c", script, wolffia}, inRootRun("sleep 0.4; exit 5")...)}.do(t)
	r.exits(t, 5)
	if r.took < 400*time.Millisecond {
		t.Errorf("it ended after %v", r.took)
	}
}

// containers/bubblewrap#697: a helper nobody waited for. This process is a subreaper, so an orphan zombie is its child.
func TestNoZombies(t *testing.T) {
	reap()
	cmd := exec.Command(wolffia, inRootRun("(true &); true")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the launcher's end", func() bool { return processes()[cmd.Process.Pid].state == 'Z' })
	if all := descendants(); !slices.Equal(all, []int{cmd.Process.Pid}) {
		for _, pid := range all {
			t.Errorf("%d %c %s, the launcher is %d", pid, processes()[pid].state, commandLine(pid), cmd.Process.Pid)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// podman-container-tools/podman#18457: a stop that races with the natural end.
func TestStopRacesWithEnd(t *testing.T) {
	t.Parallel()
	for range 60 {
		s := start(t, command{args: append([]string{wolffia}, inRootRun("echo; exec sleep 0.005")...)})
		s.line(t)
		time.Sleep(time.Duration(rand.Int64N(12_000_000)))
		s.Process.Signal(unix.SIGTERM)
		_, code := s.end()
		if code == -1 && s.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGTERM {
			continue // after the last moment at which the launcher took signals
		}
		if code != 0 && code != 143 || s.err.Len() > 0 {
			t.Fatalf("exit %d: %s", code, s.err)
		}
	}
}

// Several starts at once, each with ids, mounts and output of its own.
func TestParallelStarts(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if out := run(t, inRoot(fmt.Sprintf("echo %d >/etc/n; cat /etc/n", i))...); out.out != fmt.Sprintln(i) || out.code != 0 {
				t.Errorf("%+v", out)
			}
		})
	}
	all.Wait()
}
