package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
)

// here probes this machine once for all tests.
func here(t testing.TB) (*Facts, *Report) {
	t.Helper()
	f, err := Probe(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f, Diagnose(f)
}

// starts is whether a program runs with these attributes, by Go's own way.
func starts(attr *syscall.SysProcAttr, argv ...string) bool {
	if attr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = attr
	return cmd.Run() == nil
}

// Each check says what another program finds when it does the same.
func TestChecksAreTrue(t *testing.T) {
	f, r := here(t)
	in := func(flags uintptr, argv ...string) func() bool {
		return func() bool { return starts(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | flags}, argv...) }
	}
	overlay := `mount -t tmpfs none /dev && cd /dev && mkdir l l/f u w m && mount -t overlay none m -o lowerdir=l,upperdir=u,workdir=w,userxattr && rmdir m/f && mkdir m/f`
	for name, does := range map[string]func() bool{
		"user-namespaces":   in(unix.CLONE_NEWNS, "sh", "-c", "mount -t tmpfs none /dev"),
		"network-namespace": in(unix.CLONE_NEWNET, "true"),
		"proc":              in(unix.CLONE_NEWNS|unix.CLONE_NEWPID, "mount", "-t", "proc", "proc", "/proc"),
		"overlay":           in(unix.CLONE_NEWNS, "sh", "-c", overlay),
		"time-namespaces":   func() bool { _, err := os.Lstat("/proc/self/ns/time"); return err == nil && in(0, "true")() },
		"ptrace":            traces,
		"tun": func() bool {
			fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
			unix.Close(fd)
			return err == nil
		},
		"cgroup-memory": func() bool { return canMakeCgroup("memory") },
		"cgroup-pids":   func() bool { return canMakeCgroup("pids") },
	} {
		c := r.check(name)
		if (c.State != Cant) != does() {
			t.Errorf("%s: %s %v; another program finds the contrary", name, c.State, c.Causes)
		}
	}
	if f.Userns.OK() && (f.Depth < 1 || f.Depth > 33) {
		t.Errorf("%d more user namespaces nest", f.Depth)
	}
	for _, c := range r.Checks {
		if c.State == Cant && (c.Causes[0].What == "" || c.Causes[0].Remedy == "") && c.Reason != reasonNeedsUserns {
			t.Errorf("%s: %+v tells no cause or no remedy", c.Name, c.Causes)
		}
	}
	if t.Failed() {
		t.Log(lines(r))
	}
}

// traces starts a program that is traced, and ends it. Its tracer is a thread.
func traces() bool {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return false
	}
	syscall.Kill(pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	for !status.Signaled() {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil && err != syscall.EINTR {
			return false
		}
	}
	return true
}

// canMakeCgroup tries each folder from our own upward, or asks whether a systemd
// manager answers.
func canMakeCgroup(controller string) bool {
	f, err := cgroup.Probe(cgroup.ProbeOptions{})
	if err != nil {
		return false
	}
	for _, h := range f.Hierarchies {
		if !strings.Contains(" "+strings.Join(h.Controllers, " ")+" ", " "+controller+" ") {
			continue
		}
		for _, folder := range h.Chain {
			if name := folder.Path + "/" + cgroup.NewName(); unix.Mkdir(name, 0o755) == nil {
				unix.Rmdir(name)
				return true
			}
		}
	}
	return f.Bus.Manager != ""
}

// RLIMIT_NOFILE is told as it was before Go's runtime raised it.
func TestLimitsAreTheCallers(t *testing.T) {
	r := below(t, "", "sh", "-c", `ulimit -Sn 200 && exec "$0"`)
	limits, _ := r.check("limits").Facts["nofile"].([]any)
	if len(limits) != 2 || limits[0] != 200.0 {
		t.Errorf("%v", r.check("limits").Facts)
	}
}

// below probes in a process of its own, below a filter, started by a command.
func below(t testing.TB, rules string, before ...string) *Report {
	t.Helper()
	argv := append(before, "/proc/self/exe")
	if len(before) > 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		argv[len(argv)-1] = self
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_DOCTOR="+rules)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s", rules, err, &errOut)
	}
	r := &Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Whatever an outer container's filter refuses is told by that name, and nothing
// else is blamed (freedomofpress/dangerzone#846, youki-dev/youki#2030).
func TestBelowFilter(t *testing.T) {
	for _, test := range []struct {
		rules  string
		state  map[string]State
		reason map[string]string
	}{
		{"ptrace=EPERM", map[string]State{"ptrace": Cant, "userns-fds": WorksBut, "user-namespaces": Works}, map[string]string{"ptrace": "ptrace-seccomp"}},
		{"ptrace=ENOSYS", map[string]State{"ptrace": Cant, "userns-fds": WorksBut}, map[string]string{"ptrace": "ptrace-seccomp"}},
		{"keyctl=EPERM", map[string]State{"keyrings": WorksBut, "ptrace": Works}, map[string]string{"keyrings": reasonSeccomp}},
		{"fsopen=ENOSYS", map[string]State{"mount-api": Cant, "overlay": Works}, map[string]string{"mount-api": reasonSeccomp}},
		{"mount=EPERM", map[string]State{"user-namespaces": Cant, "overlay": Cant, "proc": Cant, "mount-api": Works},
			map[string]string{"user-namespaces": reasonSeccomp, "overlay": reasonSeccomp, "proc": reasonSeccomp}},
		{"clone3=ENOSYS", map[string]State{"pidfd": WorksBut, "user-namespaces": Works, "userns-fds": Works}, map[string]string{"pidfd": reasonSeccomp}},
		{"pidfd_open=EPERM,waitid=EPERM", map[string]State{"pidfd": WorksBut, "user-namespaces": Works}, map[string]string{"pidfd": reasonSeccomp}},
	} {
		r := below(t, test.rules)
		for name, want := range test.state {
			if c := r.check(name); c.State != want || c.Reason != test.reason[name] && c.Name != "userns-fds" {
				t.Errorf("%s: %s: %s %q %v", test.rules, name, c.State, c.Reason, c.Causes)
			}
		}
		if c := r.check("seccomp"); c.Facts["seccomp"] != 2.0 {
			t.Errorf("%s: a filter stands above it, and it says %v", test.rules, c.Facts)
		}
		// A filter comes with no_new_privs for an ordinary user, and set-uid helpers do nothing.
		if c := r.check("id-map-helpers"); os.Getuid() != 0 && (c.State != Cant || c.Reason != "newuidmap-unprivileged") {
			t.Errorf("%s: %+v", test.rules, c)
		}
	}
}

// containers/bubblewrap#371, containers/bubblewrap#764: inside a sandbox that
// allows no further namespaces.
func TestNamespacesUsedUp(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		missingFact(t, "unshare(1)")
	}
	for limit, reason := range map[string]string{"0": "namespaces-off", "9": ""} {
		r := below(t, "", unshare, "-Ur", "sh", "-c", "echo "+limit+` >/proc/sys/user/max_user_namespaces && exec "$0"`)
		c := r.check("user-namespaces")
		if c.Reason != reason {
			t.Errorf("max_user_namespaces %s: %s %+v", limit, c.State, c.Causes)
		}
		if limit == "0" && (!strings.Contains(c.Causes[0].What, "not a disk") || !strings.Contains(c.Causes[0].Remedy, "an outer sandbox set it")) {
			t.Errorf("%+v", c.Causes)
		}
		if depth, _ := c.Facts["nesting"].(float64); limit == "9" && (depth < 5 || depth > 9) { // those made before may be dying still
			t.Errorf("nine namespaces are allowed, and %v nest", c.Facts)
		}
	}
}

// Probing twice at once, and one check alone.
func TestProbeSome(t *testing.T) {
	done := make(chan error, 2)
	for range 2 {
		go func() {
			f, err := Probe(t.Context(), Options{Only: []string{"overlay", "idmapped-mounts"}})
			if err == nil && (f.Userns.Tried || f.Cgroups != nil || !f.Overlay.Tmpfs.Tried) {
				err = errors.New("other checks were made than those named")
			}
			done <- err
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
}

// What a doctor that was killed left in the home is removed by the next one; what
// may be another's is not.
func TestSweepsLayers(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, age := range []time.Duration{0, time.Hour} {
		dir, err := layers(home())
		then := time.Now().Add(-age)
		if err = errors.Join(err, os.Mkdir(dir+"/work/work", 0), os.Chtimes(dir, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Probe(t.Context(), Options{Only: []string{"overlay"}}); err != nil {
		t.Fatal(err)
	}
	left := list(home())
	if len(left) != 1 {
		t.Errorf("%q", left)
	}
	for _, name := range left {
		if err := removeLayers(home() + "/" + name); err != nil {
			t.Error(err)
		}
	}
}

func missingFact(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf("WOLFFIA_MUST_RUN is set, but missing: %s", fact)
	}
	t.Skipf("missing: %s", fact)
}
