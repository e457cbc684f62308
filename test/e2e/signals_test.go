package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// amalgam8/amalgam8#422 (a wrapper must pass signals on once), containers/crun#1442 (WINCH ended the container)
func TestSignalsOnce(t *testing.T) {
	t.Parallel()
	sent := []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGALRM, unix.SIGCONT, unix.SIGWINCH, unix.SIGUSR2}
	for _, to := range []string{"process", "group"} {
		s := start(t, command{args: append([]string{wolffia, "run"}, roleInside("signals")...)})
		if line := s.line(t); line != "ready" {
			t.Fatalf("%q", line)
		}
		pid := s.Process.Pid
		if to == "group" { // as a terminal's ^C reaches all that is in the foreground
			pid = -pid
		}
		for _, sig := range sent {
			if err := unix.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		rest, code := s.end()
		want := "SIGTERM SIGINT SIGHUP SIGUSR1 SIGALRM SIGCONT SIGUSR2"
		if got := strings.Join(strings.Fields(rest), " "); got != want || code != 9 || s.err.Len() > 0 {
			t.Errorf("to the %s: exit %d, %q, want %q\n%s", to, code, got, want, s.err)
		}
	}
}

// A signal in the very moment in which the program has set its trap. (The launcher must be ready before the program is.)
func TestSignalAtOnce(t *testing.T) {
	for i := range 50 {
		s := start(t, command{args: append([]string{wolffia}, inRootRun("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")...)})
		s.line(t)
		s.Process.Signal(unix.SIGTERM)
		if _, code := s.end(); code != 9 {
			t.Fatalf("start %d: exit %d (%v), want 9: the launcher took the signal for its own", i, code, s.ProcessState)
		}
	}
}

// The kernel drops a signal for which the first process of a pid namespace has no handler.
func TestSignalsByDefault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sig    unix.Signal
		script string
		code   int
	}{
		{unix.SIGTERM, "exec sleep 100", 143},
		{unix.SIGINT, "exec sleep 100", 130},
		{unix.SIGHUP, "exec sleep 100", 129},
		{unix.SIGUSR1, "exec sleep 100", 138},
		{unix.SIGWINCH, "sleep 0.3; exit 4", 4},
		{unix.SIGCONT, "sleep 0.3; exit 4", 4},
		{unix.SIGTERM, "trap 'exit 9' TERM; while :; do sleep 0.02; done", 9},
		{unix.SIGTERM, "trap '' TERM; sleep 0.3; exit 5", 5},
	} {
		s := start(t, command{args: append([]string{wolffia, "run"}, inRoot("echo ready; "+test.script)...)})
		s.line(t)
		time.Sleep(20 * time.Millisecond)
		s.Process.Signal(test.sig)
		if rest, code := s.end(); code != test.code || rest != "" || s.err.Len() > 0 {
			t.Errorf("%v to %q: exit %d, want %d; %s%s", test.sig, test.script, code, test.code, rest, s.err)
		}
	}
}

// What nohup(1) ignores stays ignored, by the launcher and inside.
func TestIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	c := asRole("ignore-hup", append([]string{wolffia, "run"}, inRoot("grep SigIgn /proc/self/status; sleep 0.2; exit 3")...)...)
	s := start(t, c)
	want := fmt.Sprintf("SigIgn:\t%016x", ignoredHere(t)|1)
	if line := s.line(t); line != want {
		t.Errorf("inside: %q, want %q", line, want)
	}
	s.Process.Signal(unix.SIGHUP)
	if _, code := s.end(); code != 3 {
		t.Errorf("exit %d after HUP, want 3", code)
	}
}

// ignoredHere is what this process was started with: make(1), for one, lets
// its children ignore signal 32 (posix_spawn(3) of glibc).
func ignoredHere(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "SigIgn:\t"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return mask
		}
	}
	t.Fatal("no SigIgn in /proc/self/status")
	return 0
}

func TestSignalState(t *testing.T) {
	ignored := fmt.Sprintf("SigIgn:\t%016x", ignoredHere(t))
	out := run(t, "--rootfs", rootfs, "--", "grep", "-E", "^Sig(Blk|Ign|Cgt|Pnd)", "/proc/self/status").ok(t)
	for _, line := range strings.Split(out, "\n") {
		if !strings.HasSuffix(line, "\t0000000000000000") && line != ignored {
			t.Errorf("the program starts with %s", line)
		}
	}
}
