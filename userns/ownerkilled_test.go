package userns

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// containers/bubblewrap#633: whatever the owner does when it is killed, no child of it lives on.
func TestOwnerKilled(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, mechanism := range append(Mechanisms(), "pool") {
		for round := range 10 {
			cmd := exec.Command(os.Args[0], "-test.run=^TestInnerOpensForEver$")
			cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1", "WOLFFIA_TEST_MECHANISM="+string(mechanism))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if n, err := out.Read(make([]byte, 1)); n != 1 {
				t.Fatal("it opens nothing: ", err)
			}
			time.Sleep(time.Duration(round*137) * time.Microsecond)
			cmd.Process.Kill()
			cmd.Wait()
			if left := orphansLeft(time.Second); left != "" {
				t.Fatalf("%s: %s", mechanism, left)
			}
		}
	}
}

// containers/bubblewrap#633: the owner dies before each act in turn, with all that came before it done: nothing lives on.
func TestOwnerKilledAtEveryAct(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, mechanism := range Mechanisms() {
		for _, maps := range []string{"own", "range", script(t, "exec sleep 1000")} {
			for op := actMake; op <= actDone; op++ {
				killedAt(t, mechanism, maps, op)
			}
		}
	}
}

// actDone is no act: the owner dies with all of them done.
const actDone = actReap + 1

func killedAt(t *testing.T, mechanism Mechanism, maps string, op actOp) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInnerDiesAt$")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1", "WOLFFIA_TEST_MECHANISM="+string(mechanism), "WOLFFIA_TEST_MAPS="+maps, fmt.Sprint("WOLFFIA_TEST_ACT=", op))
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != unix.SIGKILL {
		t.Errorf("%s, %s, act %d: %v", mechanism, maps, op, err)
	}
	if left := orphansLeft(2 * time.Second); left != "" {
		t.Errorf("%s, %s, act %d: %s", mechanism, maps, op, left)
	}
}

func TestInnerDiesAt(t *testing.T) {
	inner(t)
	o := newOpener(t, Using(Mechanism(os.Getenv("WOLFFIA_TEST_MECHANISM"))))
	die := func() { unix.Kill(os.Getpid(), unix.SIGKILL) }
	o.fault = func(op actOp) error {
		if fmt.Sprint(op) == os.Getenv("WOLFFIA_TEST_ACT") {
			die()
		}
		return nil
	}
	uid, gid := ownMaps()
	maps := os.Getenv("WOLFFIA_TEST_MAPS")
	if maps != "own" {
		uid, gid = rangeMaps(t)
	}
	m, err := o.Prepare(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	if maps != "own" && maps != "range" { // a helper that hangs: it dies meanwhile
		m.UIDWriter.Helper = maps
		time.AfterFunc(50*time.Millisecond, die)
	}
	for range 2 { // the second reaps the first one's child
		if _, err := o.OpenRaw(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	die()
}

// orphansLeft reaps what came to us, for at most patience, and tells of what doesn't end.
func orphansLeft(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err == unix.ECHILD:
			return ""
		case pid == 0 && time.Now().After(end):
			children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
			return "still alive: " + string(children)
		}
	}
}

func TestInnerOpensForEver(t *testing.T) {
	inner(t)
	o := newOpener(t)
	open := o.OpenRaw
	if m := os.Getenv("WOLFFIA_TEST_MECHANISM"); m == "pool" {
		p, err := o.NewPool(8)
		if err != nil {
			t.Fatal(err)
		}
		open = p.OpenRaw
	} else {
		o.wish = []Mechanism{Mechanism(m)}
	}
	m := prepare(t, o)
	for i := 0; ; i++ {
		fd, err := open(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(&fd)
		if i == 3 {
			os.Stdout.Write([]byte("x"))
		}
	}
}
