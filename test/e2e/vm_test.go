package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests of this file run on other kernels, in virtual machines (make test-vm), as uid 1000 or, TestRootVM…, as the
// guest's root. Each observes something on every kernel: where kernels differ it asks for the version, never skips.

// kernelAtLeast compares with uname(2)'s release.
func kernelAtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release, a, b := unix.ByteSliceToString(u.Release[:]), 0, 0
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		t.Fatalf("the release %q: %v", release, err)
	}
	return a > major || a == major && b >= minor
}

// tooOld checks, below Linux 5.12, that a start is refused by the name of what is missing, and that nothing ran.
func tooOld(t testing.TB, args ...string) bool {
	t.Helper()
	if kernelAtLeast(t, 5, 12) {
		return false
	}
	for _, verb := range []string{"run", "explain", "trace"} {
		r := command{args: append([]string{wolffia, verb}, args...)}.do(t)
		r.exits(t, 125)
		for _, want := range []string{"wolffia: ", "mount_setattr(2)", "kernel 5.", "ENOSYS", "since 5.12", "\n  start it on Linux 5.12 or newer"} {
			if !strings.Contains(r.err, want) {
				t.Errorf("%s: no %q in %q", verb, want, r.err)
			}
		}
		if r.out != "" {
			t.Errorf("%s: %q", verb, r.out)
		}
	}
	return true
}

// nothingLeft checks that no process with this word, no mount and no throw-away layer is left.
func nothingLeft(t testing.TB, word, mounts string) {
	t.Helper()
	eventually(t, "no process is left", func() bool { return len(having(word)) == 0 })
	if now := read(t, "/proc/self/mountinfo"); now != mounts {
		t.Errorf("mounts before\n%snow\n%s", mounts, now)
	}
	if left, _ := filepath.Glob(os.Getenv("HOME") + "/.local/share/wolffia/scratch/*"); len(left) > 0 {
		t.Errorf("throw-away layers are left: %q", left)
	}
}

// A program runs with the ids that were asked for, its changes are thrown away, its end is passed on.
func TestVMRun(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	uid, gid := os.Getuid(), os.Getgid()
	for _, test := range []struct{ flags, uids, gids string }{
		{"", autoMap(t, uid, "/etc/subuid"), autoMap(t, gid, "/etc/subgid")},
		{"--map single", fmt.Sprintf("0 %d 1\n", uid), fmt.Sprintf("0 %d 1\n", gid)},
		{"--map single --read-only", fmt.Sprintf("0 %d 1\n", uid), fmt.Sprintf("0 %d 1\n", gid)},
	} {
		mounts := read(t, "/proc/self/mountinfo")
		flags := strings.Fields(test.flags)
		if r := run(t, append(append([]string{"--rootfs", rootfs}, flags...), "--", "true")...); r.code != 0 {
			t.Errorf("%s: true: %+v", test.flags, r)
		}
		word := token()
		r, res := withResult(t, inRoot("cat /proc/self/uid_map; echo; cat /proc/self/gid_map; echo; id -u; touch /new; sleep "+word+" & exit 7", flags...)...)
		r.exits(t, 7)
		if want := test.uids + "\n" + test.gids + "\n0\n"; fields(r.out) != want || !res.Started {
			t.Errorf("%s: %s\ngot\n%swant\n%s", test.flags, r.err, fields(r.out), want)
		}
		// The kernel spares the first process of a pid namespace its own SIGKILL.
		run(t, inRoot("kill -9 $$", append(flags, "--share", "pid")...)...).exits(t, 128+int(unix.SIGKILL))
		nothingLeft(t, word, mounts)
		if _, err := os.Lstat(rootfs + "/new"); err == nil {
			t.Errorf("%s: /new is in the root of the host", test.flags)
		}
	}
}

// The default root, a view of the machine, with its overlays of /etc and /var.
func TestVMHostView(t *testing.T) {
	if tooOld(t, "--", "true") {
		return
	}
	mounts := read(t, "/proc/self/mountinfo")
	r := run(t, "--", "sh", "-c", "id -u; touch /etc/new /var/new && ls /etc/new /var/new")
	if r.exits(t, 0); r.out != "0\n/etc/new\n/var/new\n" {
		t.Errorf("%+v", r)
	}
	nothingLeft(t, token(), mounts)
}

// Layers: files of each are seen, a removed one is gone, changes are kept where --upper says, and each layer stays as it was.
func TestVMLayers(t *testing.T) {
	low, up := t.TempDir(), onDisk(t)
	write(t, low+"/etc/low", "low\n", 0o644)
	write(t, low+"/folder/file", "", 0o644)
	layers := []string{"--lower", low}
	if tooOld(t, inRoot("true", layers...)...) {
		return
	}
	mounts := read(t, "/proc/self/mountinfo")
	script := "set -e; cat /etc/low; grep -c root /etc/passwd; rm -r /folder && mkdir /folder && ls /folder; echo new >/etc/low; cat /etc/low"
	for _, flags := range [][]string{layers, append(layers, "--map", "single"), append(layers, "--upper", up)} {
		if r := run(t, inRoot(script, flags...)...); r.code != 0 || r.out != "low\n1\nnew\n" {
			t.Errorf("%v: %+v", flags, r)
		}
		if _, err := os.Stat(low + "/folder/file"); err != nil || read(t, low+"/etc/low") != "low\n" {
			t.Errorf("%v: the layer was changed: %v", flags, err)
		}
	}
	if text := read(t, up+"/etc/low"); text != "new\n" {
		t.Errorf("kept in --upper: %q", text)
	}
	nothingLeft(t, token(), mounts)
}

// onDisk is a folder that is not on tmpfs, which holds no upper layer before Linux 6.6.
func onDisk(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "e2e.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// explain tells this kernel's way to mount layers, and trace runs what explain tells.
func TestVMExplain(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	text := explain(t, inRoot("true")...).ok(t)
	for want, since := range map[string][2]int{"clone3(": {5, 12}, "pivot_root(": {5, 12}, `"lowerdir+"`: {6, 7}} {
		if got := strings.Contains(text, want); got != kernelAtLeast(t, since[0], since[1]) {
			t.Errorf("explain shows %q: %t", want, got)
		}
	}
	if r := (command{args: append([]string{wolffia, "trace"}, inRoot("true")...)}).do(t); r.code != 0 || !strings.Contains(r.out+r.err, "execve(") {
		t.Errorf("trace: %+v", r)
	}
}

// What probing says of this kernel is what the kernel does, and both are what the version brings (README, Requirements).
func TestVMFacts(t *testing.T) {
	file := t.TempDir() + "/facts.json"
	r := command{args: append([]string{wolffia, "explain", "--facts-save", file}, inRoot("true")...)}.do(t)
	if !kernelAtLeast(t, 5, 12) {
		r.exits(t, 125) // the facts are written all the same
	}
	var facts struct {
		Features map[string]bool `json:"features"`
	}
	if err := json.Unmarshal([]byte(read(t, file)), &facts); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name         string
		major, minor int
		effect       func(t testing.TB) bool
	}{
		{"mount_setattr", 5, 12, hasMountSetattr},
		{"overlay_lowerdir+", 6, 7, nil}, // its effect is TestVMLayers'
		{"tmpfs_user_xattr", 6, 6, hasTmpfsUserXattr},
	} {
		told, ok := facts.Features[test.name]
		want := kernelAtLeast(t, test.major, test.minor)
		if !ok || told != want {
			t.Errorf("%s: probing says %t, want %t: it is there since %d.%d", test.name, told, want, test.major, test.minor)
		}
		if test.effect != nil && test.effect(t) != want {
			t.Errorf("%s: the kernel has it: %t, want %t: it is there since %d.%d", test.name, !want, want, test.major, test.minor)
		}
	}
}

// hasMountSetattr calls it without a struct: EINVAL where it exists.
func hasMountSetattr(t testing.TB) bool {
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0, 0, 0, 0)
	return errno != unix.ENOSYS
}

func hasTmpfsUserXattr(t testing.TB) bool {
	dir := "/dev/shm/" + token()
	write(t, dir, "", 0o600)
	defer os.Remove(dir)
	return unix.Setxattr(dir, "user.wolffia", []byte("1"), 0) == nil
}

// Under every setting of Yama (Documentation/admin-guide/LSM/Yama.rst) containers start as they do without it: nothing
// in a start is a ptrace access that Yama forbids. Debian's kernels have it; WOLFFIA_VM_SYSCTL sets it.
func TestVMYama(t *testing.T) {
	const knob = "/proc/sys/kernel/yama/ptrace_scope"
	scope := read(t, knob)
	if _, want, asked := strings.Cut(os.Getenv("WOLFFIA_VM_SYSCTL"), "kernel.yama.ptrace_scope="); asked && scope != want[:1]+"\n" {
		t.Errorf("%s is %q, want %s", knob, scope, want[:1])
	}
	if tooOld(t, inRoot("true")...) {
		return
	}
	for _, flags := range [][]string{nil, {"--map", "single"}} {
		if out := shellLoud(t, "cat "+knob, flags...); out != scope {
			t.Errorf("%v: inside it is %q, outside %q", flags, out, scope)
		}
	}
}

// The same under each setting in turn, as the user. 3 can't be taken back (Yama.rst): it comes last, in a guest that ends.
func TestRootVMYama(t *testing.T) {
	const knob = "/proc/sys/kernel/yama/ptrace_scope"
	if tooOld(t, inRoot("true")...) {
		return
	}
	for _, scope := range []string{"0", "1", "2", "3"} {
		write(t, knob, scope, 0)
		for _, flags := range [][]string{nil, {"--map", "single"}} {
			r := asUser(t, "1000", append([]string{wolffia, "run"}, inRoot("cat "+knob, flags...)...)...).do(t)
			if r.code != 0 || r.out != scope+"\n" {
				t.Errorf("ptrace_scope %s, %v: %+v", scope, flags, r)
			}
		}
	}
}

// A start by root: a range of its own, and a root that is idmapped (README; mount_setattr(2), MOUNT_ATTR_IDMAP, 5.12).
func TestRootVMRun(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	mounts := read(t, "/proc/self/mountinfo")
	r := run(t, inRoot("id -u; stat -c %u /bin/busybox; touch /new; stat -c %u /new; cut -c 1-22 /proc/self/uid_map; exit 7")...)
	r.exits(t, 7)
	out := strings.Fields(r.out)
	if len(out) < 5 || strings.Join(out[:4], " ") != "0 0 0 0" || out[4] == "0" {
		t.Errorf("%q\n%s", out, r.err)
	}
	nothingLeft(t, token(), mounts)
}

// shellLoud is the output of a script that succeeded, whatever notes came with it.
func shellLoud(t testing.TB, script string, flags ...string) string {
	t.Helper()
	r := run(t, inRoot(script, flags...)...)
	r.exits(t, 0)
	return r.out
}

// Limits on cgroup v2, by what the place offers: a delegated cgroup, systemd's user manager, or, from a login session, a
// scope of it. Each is in force: see inForce.
func TestVMLimits(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	managers := []string{"auto"}
	if systemdRuns() {
		managers = append(managers, "systemd") // containers/crun#1134: auto may do without
	}
	for _, manager := range managers {
		t.Run(manager, func(t *testing.T) {
			inForce(t, func(t testing.TB, script string, flags ...string) (ran, result) {
				t.Helper()
				return here(t, script, append(flags, "--cgroup-manager", manager)...)
			})
			_, res := here(t, "true", "--memory", "64m", "--cgroup-manager", manager)
			// This test is in the launcher's own cgroup with it, so that can't give controllers away (EBUSY): a scope it is.
			if len(res.Cgroup.Groups) != 1 || (res.Cgroup.Groups[0].Placement == "systemd-user") != systemdRuns() {
				t.Errorf("placement: %+v", res.Cgroup.Groups)
			}
		})
	}
	noGroupsLeft(t)
}

func systemdRuns() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// Inside there is a clean view: the container's cgroup is the root, and with rw it may make more below, which its own
// limits still bind (google/nsjail#199: not without end).
func TestVMCgroupView(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	flags := []string{"--memory", "64m", "--pids-limit", "50"}
	r, _ := here(t, "cat /proc/self/cgroup; cat /sys/fs/cgroup/memory.max; mkdir /sys/fs/cgroup/x || echo refused", flags...)
	if r.out != "0::/\n67108864\nrefused\n" {
		t.Errorf("ro: %+v", r)
	}
	r, _ = here(t, `cd /sys/fs/cgroup && cat /proc/self/cgroup && mkdir x && echo $$ >x/cgroup.procs && echo +memory +pids >cgroup.subtree_control && cat x/pids.max &&
		cat /proc/self/cgroup; echo 99999999999 >memory.max 2>/dev/null || echo kept; `+allocate(200)+`; echo $?`, append(flags, "--cgroup", "rw")...)
	if r.out != "0::/\nmax\n0::/x\nkept\n137\n" {
		t.Errorf("rw: %+v", r)
	}
	// It needs no limit beside it.
	if r, _ = here(t, "cat /proc/self/cgroup && mkdir /sys/fs/cgroup/x && echo made", "--cgroup", "rw"); r.out != "0::/\nmade\n" {
		t.Errorf("rw without a limit: %+v", r)
	}
	// A launcher inside has limits of its own to give, once the shell is out of the way as the refusal says.
	nested := `/mnt/wolffia run --map host --share pid --share net --rootfs /root.ro --memory 32m --pids-limit 10 --cgroup ro -- cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max`
	r, _ = here(t, nested+`; mkdir /sys/fs/cgroup/shell && echo $$ >/sys/fs/cgroup/shell/cgroup.procs && `+nested, "--memory", "128m", "--cgroup", "rw",
		"-v", filepath.Dir(wolffia)+":/mnt:ro", "-v", rootfs+":/root.ro:ro")
	if !strings.Contains(r.err, "mkdir /sys/fs/cgroup/shell && echo $$ >/sys/fs/cgroup/shell/cgroup.procs") || r.out != "33554432\n10\n" {
		t.Errorf("a launcher inside: %+v", r)
	}
	// A value as people write it, and a protection of which the cgroup above has none to give.
	r, res := here(t, "cat /sys/fs/cgroup/memory.high", "--cgroup-conf", "memory.high=32M", "--memory-low", "16m")
	if r.exits(t, 0); r.out != "33554432\n" || len(res.Cgroup.Warnings) != 1 || !strings.Contains(r.err, "no more is kept than /sys/fs/cgroup/") {
		t.Errorf("%+v, %+v", r, res.Cgroup)
	}
	// A group of processes ends as one.
	r, res = here(t, allocate(200)+"; echo alive", append(flags, "--oom-group")...)
	if r.exits(t, 137); r.out != "" || res.Cgroup.Death.Reason != "oom" {
		t.Errorf("--oom-group: %+v, %+v", r, res.Cgroup)
	}
	noGroupsLeft(t)
}

// opencontainers/runc#234: launchers that are killed leave folders, which the next start removes, and only those.
func TestVMLimitsRemoved(t *testing.T) {
	if tooOld(t, inRoot("true")...) {
		return
	}
	// Read-only: before Linux 6.6 a killed launcher's throw-away layer stays on disk, for a minute at least.
	flags := []string{"--memory", "64m", "--pids-limit", "50", "--read-only"}
	for range 3 {
		word := token()
		p := command{args: append([]string{wolffia, "run"}, inRoot("exec sleep "+word, flags...)...)}.exec()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		long(t, "it runs", func() bool { return len(having("sleep "+word)) > 1 })
		p.Process.Kill()
		p.Wait()
		long(t, "the container ends with its launcher", func() bool { return len(having(word)) == 0 })
	}
	r, _ := here(t, "true", flags...)
	r.exits(t, 0)
	noGroupsLeft(t)
}

// long is eventually, with the patience that an emulated machine takes.
func long(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
