package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// small is a plan with one of everything that a floor is written from.
func small() *nsexec.Plan {
	return &nsexec.Plan{
		Host: []nsexec.HostStep{
			{Name: "lifeline", Op: nsexec.OpPipe},
			{Name: "make the child", Op: nsexec.OpClone, Flags: unix.CLONE_NEWUSER},
			{Name: "newuidmap", Op: nsexec.OpExec, Path: "/usr/bin/newuidmap", Argv: []string{"newuidmap", nsexec.ChildPID, "0", "1", "1"}},
			{Name: "deny setgroups", Op: nsexec.OpWrite, Path: "/proc/CHILD/setgroups", Data: "deny"},
			{Name: "wait", Op: nsexec.OpJoin},
			{Name: "open the gate", Op: nsexec.OpGate, Data: nsexec.GateMaps},
			{Name: "wait for execve", Op: nsexec.OpRelease},
		},
		Child: nsexec.Program{
			nsexec.WaitGate(nsexec.Slot(nsexec.Lifeline), nsexec.GateMaps),
			nsexec.Openat(nsexec.AtCWD(), "a \"b\"\\?\n", unix.O_PATH, 0).As("dir").Named("open").Allow("", unix.ENOENT, unix.EACCES),
			nsexec.Fchdir(nsexec.Slot("dir")).Named("*/ enter").MustFail(unix.EBADF),
			nsexec.Execve("/bin/true", []string{"true", "x"}, nil).Named("execute"),
		},
	}
}

// TestFloorSource compares what is written for a plan with golden text.
func TestFloorSource(t *testing.T) {
	source, err := FloorSource(small())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"static long slot[3];",
		"r = sys(" + strconv.Itoa(unix.SYS_READ) + ", slot[0], (long)bytes1, (long)0x1UL, 0, 0, 0);\n\tif (r != 1)\n\t\tstop(1, r);",
		`(long)"a \042b\042\134\077\012"`,
		"if (is_errno(r) && r != -2 && r != -13)\n\t\tstop(2, r);\n\tslot[1] = r;",
		"/* 3 * / enter: ",
		"if (r != -9)\n\t\tstop(3, r);",
		`static const char *strings2[] = { "true", "x", 0 };`,
		"\tstop(5, 0);\n",
		"\top_pipe(0); /* lifeline */\n\top_clone(0x10000000ULL); /* make the child */\n\top_exec(\"/usr/bin/newuidmap\", ",
		`op_write("/proc/CHILD/setgroups", "deny", 4);`,
		"\top_join(); /* wait */\n\top_gate(); /* open the gate */\n\top_release(); /* wait for execve */\n}",
		"sys(__NR_close, slot[0], 0, 0, 0, 0, 0);\n}",
	} {
		if !bytes.Contains(source, []byte(want)) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", source)
	}
}

func TestFloorSourceRefuses(t *testing.T) {
	unknown := small()
	unknown.Host = append(unknown.Host, nsexec.HostStep{Name: "new", Op: "new"})
	if _, err := FloorSource(unknown); err == nil || !strings.Contains(err.Error(), `"new"`) {
		t.Errorf("a host step that the floor lacks: %v", err)
	}
	invalid := new(nsexec.InvalidError)
	if _, err := FloorSource(&nsexec.Plan{}); !errors.As(err, &invalid) {
		t.Errorf("an empty plan: %v", err)
	}
}

// look prints what a container is; addresses and times of the day stay out of it.
const look = `grep -v '^Pid\|^Tgid\|ctxt\|Vm\|Rss\|^Cpus\|^Mems\|Hugetlb\|THP' /proc/self/status; cat /proc/self/uid_map /proc/self/gid_map
	echo /proc/self/fd/*; umask; ulimit -a; cut -d' ' -f4- /proc/self/mountinfo; ls -la /dev; ls -l /proc/1/ns; cat /sys/class/net/lo/flags; env; hostname; pwd`

// TestFloorIsTheSame looks from inside: the floor's container and wolffia's are alike.
func TestFloorIsTheSame(t *testing.T) {
	root := rootfs(t)
	for _, mode := range mapModes(t) {
		for _, readOnly := range []bool{false, true} {
			v := Variant{Map: mode, ReadOnly: readOnly}
			t.Run(v.String(), func(t *testing.T) {
				f := floor(t, v, root, "/bin/sh", "-c", look)
				byFloor, err := exec.Command(f.Path).Output()
				if err != nil {
					t.Fatal(err)
				}
				byWolffia := output(t, v, root, "/bin/sh", "-c", look)
				if a, b := comparable(byFloor), comparable(byWolffia); a != b {
					t.Errorf("by the floor:\n%s\nby wolffia:\n%s", a, b)
				}
			})
		}
	}
}

// comparable replaces the numbers that the kernel counts on: inodes of
// namespaces, devices of file systems, the time.
func comparable(text []byte) string {
	for _, r := range [][2]string{{`\[[0-9]+\]`, "[N]"}, {`[A-Z][a-z]{2} +[0-9]+ [0-9:]{5}`, "TIME"}} {
		text = regexp.MustCompile(r[0]).ReplaceAll(text, []byte(r[1]))
	}
	return string(text)
}

// output starts a container with its stdout in a file and returns that.
func output(t *testing.T, v Variant, root string, args ...string) []byte {
	t.Helper()
	plan, err := v.Plan(root, args...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	unix.Dup3(int(out.Fd()), 1, 0)
	c, err := container.Start(context.Background(), nsexec.NewSpawner(), plan)
	unix.Dup3(saved, 1, 0)
	unix.Close(saved)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := c.Wait(); err != nil || status.ExitCode() != 0 {
		t.Fatalf("%v %v", status, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFloorLoop runs several containers in one process of the floor, and one
// whose program fails.
func TestFloorLoop(t *testing.T) {
	root := rootfs(t)
	for _, mode := range mapModes(t) {
		if took, err := floor(t, Variant{Map: mode}, root, "/bin/true").Loop(3); err != nil || took <= 0 {
			t.Errorf("map=%s: %v %v", mode, took, err)
		}
	}
	f := floor(t, Variant{Map: userns.Single}, root, "/bin/false")
	if _, err := f.Loop(1); err == nil {
		t.Error("a loop of containers that fail succeeded")
	}
	exit := new(exec.ExitError)
	if err := exec.Command(f.Path).Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit status of /bin/false: %v", err)
	}
}

// TestFloorFails names the step that the child couldn't make.
func TestFloorFails(t *testing.T) {
	root := rootfs(t)
	mapModes(t)
	f := floor(t, Variant{Map: userns.Single}, root, "/bin/nothing")
	out, err := exec.Command(f.Path).CombinedOutput()
	if err == nil {
		t.Errorf("a program that isn't there was started: %s", out)
	}
}
