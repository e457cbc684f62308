package userns

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Below a debugger that follows children, as strace -f does: a process has one tracer, and set-uid helpers lose their
// privilege. vm and fork work, ptrace says why not, and so does an opening that takes the helpers.
func TestTraced(t *testing.T) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInnerTraced$", "-test.v")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	follow(t, cmd.Process.Pid)
	cmd.Process.Release()
	text, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(text), "--- PASS: TestInnerTraced") {
		t.Errorf("%v\n%s", err, text)
	}
}

// follow traces a process that stands at its execve, and all its children, to their ends.
func follow(t *testing.T, pid int) {
	t.Helper()
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	const all = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_EXITKILL
	if err := errors.Join(unix.PtraceSetOptions(pid, all), unix.PtraceCont(pid, 0)); err != nil {
		t.Fatal(err)
	}
	for {
		now, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return // all have ended
		case status.Stopped():
			signal := int(status.StopSignal())
			if signal == int(unix.SIGTRAP) || signal == int(unix.SIGSTOP) { // ptrace's own
				signal = 0
			}
			unix.PtraceCont(now, signal) // it may have been killed meanwhile
		}
	}
}

func TestInnerTraced(t *testing.T) {
	inner(t)
	for _, mechanism := range []Mechanism{VM, Fork} {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 20)
		if os.Geteuid() == 0 {
			continue
		}
		uid, gid := rangeMaps(t)
		_, err := o.Open(t.Context(), uid, gid)
		if err == nil || !strings.Contains(err.Error(), "traces this one") {
			t.Errorf("%s, with helpers: %v", mechanism, err)
		}
	}
	wantFallback(t, "traces this one", VM, Ptrace, VM)
}
