package nsexec

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A container whose program lost PR_SET_PDEATHSIG, as a change of ids does, ends with its launcher too.
func TestKeeperEndsContainer(t *testing.T) {
	launcher := exec.Command(os.Args[0], "-test.run=^TestKeptLauncher$")
	launcher.Env = append(os.Environ(), "WOLFFIA_KEPT_LAUNCHER=1")
	launcher.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, _ := out.Read(buf)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatalf("%q", buf[:n])
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	// The whole process group: the keeper isn't in it.
	group, err := unix.PidfdOpen(launcher.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(group)
	const pidfdSignalProcessGroup = 1 << 2 // Linux 6.9
	if err := unix.PidfdSendSignal(group, unix.SIGKILL, nil, pidfdSignalProcessGroup); err != nil {
		launcher.Process.Kill()
	}
	launcher.Wait()
	if err := pollIn(pidfd, 1000); err != nil {
		t.Errorf("the container lives on after its launcher: %v", err)
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}
}

// TestKeptLauncher is the launcher of TestKeeperEndsContainer.
func TestKeptLauncher(t *testing.T) {
	if os.Getenv("WOLFFIA_KEPT_LAUNCHER") == "" {
		return
	}
	plan := realPlan("/bin/sleep", "100")
	for i, s := range plan.Child {
		if s.Call == unix.SYS_EXECVE {
			clear := Prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, Int(0)).Named("lose the tie")
			plan.Child = append(plan.Child[:i:i], append(Program{clear}, plan.Child[i:]...)...)
			break
		}
	}
	p, _, err := NewSpawner().Start(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(strconv.Itoa(p.PID) + "\n")
	time.Sleep(time.Minute)
}

// The keeper goes with its container, and Close leaves the container alone.
func TestKeeperIsDismissed(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	p, _, err := s.Start(context.Background(), realPlan("/bin/true"))
	if err != nil {
		t.Fatal(err)
	}
	keeper := p.keeper.proc
	if status, err := p.Wait(); err != nil || status.ExitCode() != 0 {
		t.Errorf("%v, %v", status, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := keeper.Signal(0); err == nil {
		t.Error("the keeper lives on")
	}

	p, _, err = s.Start(context.Background(), realPlan("/bin/sleep", "0.2"))
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	p.Close()
	if status, err := waitid(unix.P_PIDFD, pidfd, 0); err != nil || status != (ExitStatus{}) {
		t.Errorf("after Close: %v, %v", status, err)
	}
}

// A helper that says it worked and wrote no map is found out.
func TestHelperWithoutMap(t *testing.T) {
	defer leaks(t)()
	plan := realPlan("/bin/true")
	for i, h := range plan.Host {
		if h.Op == OpExec {
			plan.Host[i].Path, plan.Host[i].Argv = "/bin/true", []string{"newuidmap", ChildPID, "0", "1", "1"}
		}
	}
	plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Op == OpWrite })
	_, _, err := NewSpawner().Start(context.Background(), plan)
	if err == nil || !strings.Contains(err.Error(), "wrote no uid_map") {
		t.Error(err)
	}
}
