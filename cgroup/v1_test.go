package cgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRootDelegatedV1: root gives a folder of three v1 hierarchies to the
// ordinary user, who then has limits that hold, by name.
func TestRootDelegatedV1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runs in the run as root: it delegates")
	}
	name := fmt.Sprintf("wolffia-test-%d", os.Getpid())
	uid, gid := testUser(t)
	delegateV1(t, name, uid, gid)
	cmd := exec.Command(shared(t), "-test.run=^TestGivenV1$", "-test.v")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_GIVEN="+name)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestGivenV1") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGivenV1(t *testing.T) {
	parent := os.Getenv("WOLFFIA_TEST_GIVEN")
	if parent == "" {
		t.Skip("runs in a process that TestRootDelegatedV1 starts")
	}
	effects(t, parent)
	t.Run("v2 only", func(t *testing.T) {
		l := limits(t, Flags{MemoryHigh: "32m"})
		f, err := Probe(ProbeOptions{Limits: l, Parent: parent})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Compile(Wish{Limits: l, Parent: parent}, f)
		wantRefusal(t, err, NoForm, "memory.high", "cgroup v1's here")
	})
}

// delegateV1 makes the folder in each hierarchy, below our own cgroup.
func delegateV1(t *testing.T, name string, uid, gid uint32) {
	t.Helper()
	f, err := Probe(ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range []string{"memory", "cpu", "pids"} {
		h := f.v1(controller)
		if h == nil || len(h.Chain) == 0 {
			missing(t, "a v1 hierarchy with the "+controller+" controller")
		}
		folder := h.Chain[0].Path + "/" + name
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := removeTree(t.Context(), folder); err != nil {
				t.Error(err)
			}
		})
		for _, p := range []string{folder, folder + "/cgroup.procs"} {
			if err := os.Chown(p, int(uid), int(gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func testUser(t *testing.T) (uid, gid uint32) {
	t.Helper()
	u, err := user.Lookup(os.Getenv("WOLFFIA_TEST_USER"))
	if err != nil {
		missing(t, "an ordinary user, named by WOLFFIA_TEST_USER: "+err.Error())
	}
	a, _ := strconv.ParseUint(u.Uid, 10, 32)
	b, _ := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(a), uint32(b)
}

// shared copies this test binary to where everybody can execute it.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(dir+"/cgroup.test", os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// An ordinary user of a v1 machine where nobody delegated anything: each limit
// is refused by the folder and the command, never dropped (containers/crun#1785).
func TestNotDelegatedV1(t *testing.T) {
	l := limits(t, Flags{Memory: "64m", CPUs: "0.5", Pids: "20"})
	f, err := Probe(ProbeOptions{Limits: l, Try: true})
	if err != nil {
		t.Fatal(err)
	}
	h := f.v1("memory")
	if os.Geteuid() == 0 || h == nil || len(h.Chain) == 0 || unix.Access(h.Chain[0].Path, unix.W_OK) == nil {
		t.Skip("this is no ordinary user of a v1 hierarchy that isn't delegated")
	}
	_, err = Compile(Wish{Limits: l}, f)
	for _, controller := range []string{"memory", "cpu", "pids"} {
		wantRefusal(t, err, NotDelegated, f.v1(controller).Chain[0].Path, "chown "+strconv.Itoa(os.Getuid()))
	}
	p, err := Compile(Wish{Limits: l, Mode: Try}, f)
	if err != nil || len(p.Refused) != 3 || len(p.Before) != 0 {
		t.Fatalf("%v\n%s", err, p)
	}
	if warnings, err := Settle(Try, p.Ledger); err != nil || len(warnings) != 3 {
		t.Errorf("%q %v", warnings, err)
	}
}
