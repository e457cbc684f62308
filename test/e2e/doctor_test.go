package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// diagnosis is the part of doctor --json that tests look at.
type diagnosis struct {
	Works     bool
	Pretended []string
	Checks    []diagnosed
	Verdicts  []struct {
		Feature, Verdict string
		OK               bool
	}
}

type diagnosed struct {
	Name, State, Reason, Detail string
	Causes                      []struct{ Reason, Cause, Remedy string }
	Needed                      bool
	Facts                       map[string]any
}

func (d diagnosis) check(t testing.TB, name string) diagnosed {
	t.Helper()
	for _, c := range d.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Errorf("no check %s in %+v", name, d)
	return diagnosed{}
}

func (d diagnosis) verdict(feature string) string {
	for _, v := range d.Verdicts {
		if v.Feature == feature {
			return v.Verdict
		}
	}
	return ""
}

// diagnose is doctor --json under a command, whose exit code has to agree.
func diagnose(t testing.TB, c command, flags ...string) diagnosis {
	t.Helper()
	c.args = append(append(c.args, wolffia, "doctor", "--json"), flags...)
	r := c.do(t)
	var d diagnosis
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if (r.code == 0) != d.Works || r.code > 1 {
		t.Errorf("exit %d, and works is %t", r.code, d.Works)
	}
	return d
}

// agrees holds doctor's word on run against a run.
func (d diagnosis) agrees(t testing.TB, c command) {
	t.Helper()
	c.args = append(c.args, wolffia, "run", "--", "true")
	if r := c.do(t); (r.code == 0) != d.Works {
		t.Errorf("doctor says that run works: %t (%s); it ended with %d\n%s", d.Works, d.verdict("run"), r.code, r.err)
	}
}

// Every check has a name, a state and, where something is missing, a reason; the
// word on run is true; and nothing is left behind, which TestMain looks for.
func TestDoctor(t *testing.T) {
	d := diagnose(t, command{})
	d.agrees(t, command{})
	if d.Works != strings.HasPrefix(d.verdict("run"), "works: true ran") || len(d.Checks) < 20 {
		t.Errorf("%+v", d)
	}
	for _, c := range d.Checks {
		if c.State != "works" && (c.Reason == "" || len(c.Causes) == 0) || c.State == "cant" && c.Needed && d.Works {
			t.Errorf("%+v", c)
		}
	}
	text := command{args: []string{wolffia, "doctor"}}.do(t)
	for _, c := range d.Checks {
		if !strings.Contains(text.out, "\n"+c.Name) && !strings.HasPrefix(text.out, c.Name) {
			t.Errorf("no line for %s in\n%s", c.Name, text.out)
		}
	}
	if left := home(t, ".wolffia-doctor"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// home lists what begins with a name in the user's home.
func home(t testing.TB, prefix string) string {
	t.Helper()
	entries, err := os.ReadDir(os.Getenv("HOME"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			return e.Name()
		}
	}
	return ""
}

func TestDoctorFlags(t *testing.T) {
	for _, test := range []struct {
		args  string
		code  int
		words []string
	}{
		{"--probe user-namespaces", 0, []string{"user-namespaces    works"}},
		{"--probe user-namespaces,limits --json", 0, []string{`"name": "limits"`}},
		{"--probe nonsense", 125, []string{`no check "nonsense"`, "cgroup-memory"}},
		{"--pretend nonsense", 125, []string{`no pretence "nonsense"`, "no-newuidmap", "yama="}},
		{"--pretend yama=9", 125, []string{"yama=9: want 0, 1, 2 or 3"}},
		{"--pretend no-newuidmap", 1, []string{"apt-get install uidmap", "run:             can't: id-map-helpers"}},
		{"--pretend no-tun,yama=2", 0, []string{"modprobe tun", "sysctl kernel.yama.ptrace_scope=1", "no container was started"}},
		{"--pretend seccomp-ptrace --probe ptrace", 1, []string{"ptrace             can't       blocked by seccomp (Seccomp: 2)"}},
		{"--prove nonsense", 125, []string{"there is one proof: memory"}},
		{"--nonsense", 125, []string{"doctor --help"}},
		{"word", 125, []string{"doctor --help"}},
		{"--help", 0, []string{"examples:", "--pretend"}},
	} {
		r := command{args: append([]string{wolffia, "doctor"}, strings.Fields(test.args)...)}.do(t)
		r.exits(t, test.code)
		for _, w := range test.words {
			if !strings.Contains(r.out+r.err, w) {
				t.Errorf("%s: no %q in\n%s%s", test.args, w, r.out, r.err)
			}
		}
		if (r.err != "") != (test.code == 125) {
			t.Errorf("%s: exit %d and on stderr %q", test.args, r.code, r.err)
		}
	}
}

// Nothing pretended reaches a run: the environment and files are as they were.
func TestDoctorPretendsOnly(t *testing.T) {
	d := diagnose(t, command{}, "--pretend", "no-overlay,max-userns=0")
	if d.Works || len(d.Pretended) != 2 {
		t.Errorf("%+v", d)
	}
	run(t, "--", "true").exits(t, 0)
}

// A binary that its user may write runs from memory, and a profile is for the file
// all the same (rootless-containers/rootlesskit#421).
func TestDoctorNamesTheBinary(t *testing.T) {
	own := t.TempDir() + "/mine"
	data, err := os.ReadFile(wolffia)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, data, 0o755); err != nil {
		t.Fatal(err)
	}
	r := command{args: []string{own, "doctor", "--pretend", "apparmor", "--probe", "user-namespaces"}}.do(t)
	if r.exits(t, 1); !strings.Contains(r.out, "profile wolffia "+own+" flags") {
		t.Errorf("%+v", r)
	}
}

// Where a start fails, doctor says so and why: below filters, with too few files,
// in a container, where no namespace may be made.
func TestDoctorAgreesWithRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		c     command
		check string
		state string
	}{
		"fsopen":     {asRole("filter", "fsopen=EPERM"), "mount-api", "cant"},
		"clone":      {asRole("filter", "clone3=EPERM,clone=EPERM"), "user-namespaces", "cant"},
		"few files":  {command{args: []string{"sh", "-c", `ulimit -n 20 && exec "$0" "$@"`}}, "limits", "cant"},
		"namespaces": {command{args: []string{"unshare", "-Ur", "sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`}}, "user-namespaces", "cant"},
		"sane":       {command{}, "user-namespaces", "works"},
	} {
		d := diagnose(t, test.c)
		if c := d.check(t, test.check); c.State != test.state {
			t.Errorf("%s: %+v", name, c)
		}
		d.agrees(t, test.c)
	}
}

// Inside a container of our own, with fewer ids and a masked /proc.
func TestDoctorInside(t *testing.T) {
	r := run(t, "-v", wolffia+":/mnt/wolffia", "--", "/mnt/wolffia", "doctor", "--json")
	var d diagnosis
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.exits(t, 1); d.Works || d.check(t, "proc").Reason != "proc-masked" || d.check(t, "user-namespaces").State != "works" {
		t.Errorf("%+v", d)
	}
}

// In a container that shares the network /sys is the host's, and an empty tmpfs covers its cgroups: there are none.
func TestDoctorInsideNoCgroupfs(t *testing.T) {
	bin := filepath.Dir(wolffia)
	r := run(t, inRoot("/mnt/wolffia doctor --probe cgroup-memory", "-v", bin+":/mnt:ro", "--share", "net")...)
	if !strings.Contains(r.out, "cgroup-memory      can't       no cgroup") {
		t.Errorf("%+v", r)
	}
}

// --prove memory is answered by an experiment, or by a clear word.
func TestDoctorProveMemory(t *testing.T) {
	// Nothing is delegated to the user here: refused, with the cause.
	r := command{args: []string{wolffia, "doctor", "--prove", "memory"}}.do(t)
	if r.code != 125 || !strings.Contains(r.err, "--prove memory: ") || !strings.Contains(r.err, "isn't delegated") {
		t.Errorf("%+v", r)
	}
}

func proven(t *testing.T) {
	t.Helper()
	r := command{args: []string{wolffia, "doctor", "--prove", "memory"}}.do(t)
	if r.code != 0 || !strings.Contains(r.out, "touched 200 MiB: exit 137, killed by the kernel for its memory (1), memory.max read back 67108864") ||
		!strings.Contains(r.out, "touched 32 MiB: exit 0") || !strings.Contains(r.out, "memory limits: in force") {
		t.Errorf("%+v", r)
	}
	noGroupsLeft(t)
}

func TestRootDoctorProveMemory(t *testing.T) { proven(t) }

func TestVMDoctorProveMemory(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	proven(t)
}

// Doctor as root: a range of ids of its own, helpers that aren't needed.
func TestRootDoctor(t *testing.T) {
	need(t, os.Getuid() == 0, "root")
	d := diagnose(t, command{})
	d.agrees(t, command{})
	if c := d.check(t, "id-map-helpers"); c.State != "works" || !strings.Contains(c.Detail, "not needed") {
		t.Errorf("%+v", c)
	}
	// A v1 cpuset whose lists hold something isn't called empty.
	cpus, _ := os.ReadFile("/sys/fs/cgroup/cpuset/cpuset.cpus")
	if c := d.check(t, "cgroup-cpuset"); strings.TrimSpace(string(cpus)) != "" && c.State != "works" {
		t.Errorf("cpuset.cpus is %q: %+v", cpus, c)
	}
	if c := d.check(t, "tun"); c.State != "works" && unix.Access("/dev/net/tun", unix.F_OK) == nil {
		t.Errorf("%+v", c)
	}
}

// On every kernel doctor's word on run, on tmpfs as an upper layer and on time
// namespaces is what the kernel does (design: both mounts and calls succeed where
// the use fails later).
func TestVMDoctor(t *testing.T) {
	d := diagnose(t, command{})
	d.agrees(t, command{})
	overlay := d.check(t, "overlay")
	if want := kernelAtLeast(t, 6, 6); overlay.Facts["tmpfs"] != want {
		t.Errorf("tmpfs takes user xattrs: %t; %+v", want, overlay)
	}
	if !kernelAtLeast(t, 5, 12) {
		if c := d.check(t, "mount-api"); c.Reason != "mount-api-kernel" || d.Works {
			t.Errorf("%+v", c)
		}
	}
	want := map[bool]string{true: "works", false: "works-but"}[kernelAtLeast(t, 6, 2)] // 2b5f9dad32ed: execve enters it
	if c := d.check(t, "time-namespaces"); c.State != want {
		t.Errorf("want %s: %+v", want, c)
	}
	for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		if c := d.check(t, "cgroup-"+controller); (c.State == "works") != delegatedHere(t, controller) {
			t.Errorf("%+v", c)
		}
	}
	if left := home(t, ".wolffia-doctor"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// delegatedHere reads the live list of the folder that is this user's, from our
// own cgroup upward, or of the user manager's (rootless-containers/rootlesscontaine.rs#78:
// what a distribution delegates changes).
func delegatedHere(t testing.TB, controller string) bool {
	t.Helper()
	_, own, _ := strings.Cut(strings.TrimSpace(read(t, "/proc/self/cgroup")), "::")
	manager := fmt.Sprintf("/user.slice/user-%d.slice/user@%[1]d.service", os.Getuid())
	for _, folder := range []string{own, path.Dir(own), manager} {
		folder = "/sys/fs/cgroup" + folder
		if st, err := os.Stat(folder); err != nil || st.Sys().(*unixStat).Uid != uint32(os.Getuid()) {
			continue
		}
		return slices.Contains(strings.Fields(read(t, folder+"/cgroup.controllers")), controller)
	}
	return false
}
