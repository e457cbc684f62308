package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountLine is one mount of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mountLine struct {
	root, at, options, fstype, super string
	optional                         []string // shared:N, master:N, …
}

func parseMounts(t testing.TB, text string) map[string]mountLine {
	t.Helper()
	all := map[string]mountLine{}
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			t.Fatalf("mountinfo: %q", line)
		}
		all[l[4]] = mountLine{l[3], l[4], l[5], r[0], r[2], l[6:]}
	}
	return all
}

// mountsOf shows the mounts of a container in the busybox root.
func mountsOf(t testing.TB, flags ...string) map[string]mountLine {
	t.Helper()
	return parseMounts(t, shell(t, "cat /proc/self/mountinfo", flags...))
}

func TestDefaultMounts(t *testing.T) {
	mounts := mountsOf(t)
	for at, want := range map[string][3]string{
		"/":           {"overlay", "rw", "userxattr"},
		"/proc":       {"proc", "rw,nosuid,nodev,noexec", "rw"},
		"/sys":        {"sysfs", "ro,nosuid,nodev,noexec", "rw"},
		"/dev":        {"tmpfs", "rw,nosuid,noexec", "mode=755"},
		"/dev/pts":    {"devpts", "rw,nosuid,noexec", "ptmxmode=666"},
		"/dev/shm":    {"tmpfs", "rw,nosuid,nodev,noexec", "size=65536k"},
		"/dev/mqueue": {"mqueue", "rw,nosuid,nodev,noexec", "rw"},
		"/dev/null":   {"devtmpfs", "rw", "rw"},
		"/proc/sys":   {"proc", "ro,nosuid,nodev,noexec", "rw"},
		"/proc/bus":   {"proc", "ro,nosuid,nodev,noexec", "rw"},
	} {
		if m := mounts[at]; m.fstype != want[0] || !strings.HasPrefix(m.options, want[1]) || !strings.Contains(m.super, want[2]) {
			t.Errorf("%s: %+v, want %v", at, m, want)
		}
	}
	for _, m := range mounts {
		if len(m.optional) > 0 {
			t.Errorf("%s propagates: %v", m.at, m.optional)
		}
	}
}

// What is masked can't be read, what is read-only not written; everything else of /proc works.
func TestProc(t *testing.T) {
	r := run(t, inRoot(`
		for f in kcore keys timer_list sched_debug interrupts; do test ! -e /proc/$f || head -c 1 /proc/$f; done
		for d in acpi asound scsi; do test ! -e /proc/$d || ls -A /proc/$d; done; ls -A /sys/firmware
		for f in sys/kernel/hostname sysrq-trigger irq/default_smp_affinity; do test ! -e /proc/$f || echo 1 >/proc/$f; done
		ls -d /proc/[0-9]* | head -n 1; cat /proc/sys/kernel/hostname`)...)
	writable := strings.Count(r.err, "\n") - strings.Count(r.err, "Read-only file system\n")
	if r.out != "/proc/1\nwolffia\n" || writable != 0 || r.err == "" {
		t.Errorf("%+v", r)
	}
}

// podman-container-tools/podman#19440: a proc that doesn't belong to the pid namespace. podman#20453: one inside of one that is masked.
func TestProcOfPidNamespace(t *testing.T) {
	for _, flags := range [][]string{nil, {"--share", "pid"}, {"--map", "single"}} {
		if out := shell(t, `read pid rest </proc/self/stat; test $pid = $$ && grep ^NSpid: /proc/self/status | wc -w`, flags...); out == "" {
			t.Errorf("%v: /proc/self is another process", flags)
		}
	}
	inner := func(flags ...string) ran {
		args := []string{"-v", wolffia + ":/mnt/wolffia", "-v", rootfs + ":/mnt/rootfs", "--", "/mnt/wolffia", "run", "--map", "single", "--rootfs", "/mnt/rootfs", "--read-only"}
		return run(t, append(append(args, flags...), "true")...)
	}
	inner().refused(t, `"mount too revealing"`, "three ways out", "--share pid", "EPERM")
	inner("--share", "pid").refused(t, "sysfs", "--share net", "EPERM")
	inner("--share", "pid,net").exits(t, 0)
}

// aristanetworks/bst#34 (another namespace's devices), podman-container-tools/podman#11887 (it differed from run to run)
func TestSys(t *testing.T) {
	// The container's root owns its network's files, however long the helpers take (package network).
	for _, flags := range [][]string{nil, {"--cap-add", "NET_ADMIN"}, {"--map", "single"}} {
		if r := run(t, inRoot("stat -c %u /sys/class/net/lo/mtu", flags...)...); r.out != "0\n" {
			t.Errorf("%v: lo/mtu belongs to %s", flags, r.out)
		}
	}
	r := run(t, inRoot("echo /sys/class/net/*; echo 1 >/sys/class/net/lo/mtu; ip -o addr | cut -d' ' -f 2,7")...)
	if !strings.HasPrefix(r.out, "/sys/class/net/lo\nlo 127.0.0.1/8\n") || !strings.Contains(r.err, "Read-only file system") {
		t.Errorf("%+v", r)
	}
	// google/nsjail#199: a cgroup tree in which the inside could make groups without end
	if r := run(t, inRoot("mkdir /sys/fs/cgroup/x || mkdir /sys/fs/cgroup/*/x", "--cap-add", "ALL")...); r.code == 0 {
		t.Errorf("made a cgroup: %+v", r)
	}
	first := mountsOf(t)
	minor := regexp.MustCompile(`(upperdir|workdir|size|nr_inodes)=\w+`)
	for range 20 {
		for at, m := range mountsOf(t) {
			if minor.ReplaceAllString(fmt.Sprint(m), "") != minor.ReplaceAllString(fmt.Sprint(first[at]), "") {
				t.Fatalf("%s: %v, before %v", at, m, first[at])
			}
		}
	}
	hosts, _ := os.ReadDir("/sys/class/net")
	if out := shell(t, "ls /sys/class/net | wc -l; grep -c ' /sys ro,' /proc/self/mountinfo", "--share", "net"); out != fmt.Sprint(len(hosts), "\n1") {
		t.Errorf("--share net: %q, the host has %d", out, len(hosts))
	}
}

// containers/bubblewrap#125 (/dev/null unusable), lxc/lxc#2272 (gid=5 where it isn't mapped), containers/bubblewrap#331
func TestDev(t *testing.T) {
	for _, flags := range [][]string{nil, {"--map", "single"}, {"--user", "1000"}, {"--read-only"}} {
		r := run(t, inRoot(`cd /dev; for f in null zero full random urandom tty; do stat -c '%n %t:%T %a' $f; done; for f in fd stdin stdout stderr ptmx; do readlink $f; done
			echo x >null && head -c 4 zero | wc -c && head -c 9 urandom | wc -c; echo x >full`, flags...)...)
		want := "null 1:3 666\nzero 1:5 666\nfull 1:7 666\nrandom 1:8 666\nurandom 1:9 666\ntty 5:0 666\n" +
			"/proc/self/fd\n/proc/self/fd/0\n/proc/self/fd/1\n/proc/self/fd/2\npts/ptmx\n4\n9\n"
		if r.out != want || !strings.Contains(r.err, "No space left on device") {
			t.Errorf("%v: %+v", flags, r)
		}
	}
	r := run(t, roleInside("pty")...)
	if r.ok(t) != "/dev/pts/0" {
		t.Errorf("a terminal of its own: %+v", r)
	}
	if out := run(t, roleInside("pty", "--map", "single")...).ok(t); out != "/dev/pts/0" {
		t.Errorf("with a single id: %s", out)
	}
	_, res := withResult(t, inRoot("true", "--map", "single")...)
	if !strings.Contains(strings.Join(res.Notes, "\n"), "gid=5 was left out") {
		t.Errorf("nothing of gid=5 in %q", res.Notes)
	}
	run(t, "--rootfs", "/", "--read-only", "--", "sh", "-c", "echo x >/dev/null").ok(t)
}

// containers/bubblewrap#329: mode and size of /dev/shm. moby/moby#36674: mqueue without an ipc namespace.
func TestShm(t *testing.T) {
	script := "stat -c %a /dev/shm; df -k /dev/shm | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2; head -c 9437184 /dev/zero >/dev/shm/f; stat -c %s /dev/shm/f"
	if r := run(t, inRoot(script, "--shm-size", "8M")...); r.out != "1777\n8192\n8388608\n" || r.err == "" {
		t.Errorf("%+v", r)
	}
	if out := shell(t, script); out != "1777\n65536\n9437184" {
		t.Errorf("by default %q", out)
	}
	ipc, _ := os.Readlink("/proc/self/ns/ipc")
	if out := shell(t, "readlink /proc/self/ns/ipc", "--share", "ipc"); out != ipc {
		t.Errorf("--share ipc: %s, ours is %s", out, ipc)
	}
	run(t, inRoot("true", "--shm-size", "8X")...).refused(t, "8")
	run(t, inRoot("true", "--shm-size", "1M", "--share", "ipc")...).refused(t, "--shm-size")
}

func TestTmpfs(t *testing.T) {
	script := "stat -c %a /cache; df -k /cache | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2; touch /cache/a/b; ls /cache; grep ' /cache ' /proc/self/mountinfo | cut -d ' ' -f 6"
	r := run(t, inRoot(script, "--tmpfs", "/cache:size=1m,mode=711,ro")...)
	if !strings.HasPrefix(r.out, "711\n1024\nro,") {
		t.Errorf("%+v", r)
	}
	if out := shell(t, "touch /cache/x /a/b/c/y && ls /cache /a/b/c", "--tmpfs", "/cache", "--tmpfs", "/a/b/c"); out != "/a/b/c:\ny\n\n/cache:\nx" {
		t.Errorf("%q", out)
	}
	run(t, inRoot("true", "--tmpfs", "cache")...).refused(t, "--tmpfs", "absolute")
	run(t, inRoot("true", "--tmpfs", "/cache:size=many")...).refused(t, "size=many", "EINVAL")
}

// A /dev of one's own kind gets the same devices.
func TestOtherDev(t *testing.T) {
	for _, flags := range [][]string{{"--tmpfs", "/dev:mode=755"}, {"-v", "/dev:/dev"}} {
		if out := shell(t, "echo x >/dev/null; head -c 3 /dev/zero | wc -c; stat -c %t:%T /dev/null", flags...); out != "3\n1:3" {
			t.Errorf("%v: %q", flags, out)
		}
	}
	mine := t.TempDir()
	if out := shell(t, "ls -A /dev | wc -l", "-v", mine+":/dev"); out != "0" {
		t.Errorf("a folder at /dev: %q", out)
	}
	if left, _ := os.ReadDir(mine); len(left) != 0 {
		t.Errorf("made in the caller's folder: %v", left)
	}
}

// youki-dev/youki#212 (read-only ignored on a file), and what a volume is otherwise.
func TestVolume(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", "text", 0o644)
	write(t, dir+"/with:colon/x", "colon", 0o644)
	for _, test := range []struct{ volume, script, out, err string }{
		{dir + ":/mnt", "cat /mnt/file; echo new >/mnt/new; rm /mnt/new", "text", ""},
		{dir + ":/mnt:rw", "touch /mnt/new; rm /mnt/new", "", ""},
		{dir + ":/mnt:ro", "cat /mnt/file; touch /mnt/new", "text", "Read-only file system"},
		{dir + "/file:/etc/passwd:ro", "cat /etc/passwd; echo x >/etc/passwd", "text", "Read-only file system"},
		{dir + "/file:/new/place/file:ro", "cat /new/place/file; echo x >/new/place/file", "text", "Read-only file system"},
		{dir + "/file:/etc/passwd", "printf text >/etc/passwd; cat /etc/passwd", "text", ""},
		{dir + "/with:colon:/mnt", "cat /mnt/x", "colon", ""},
		{dir + ":/dev/volume", "cat /dev/volume/file", "text", ""},
		{dir + ":/proc/volume", "", "", "wolffia: "}, // no folder can be made there
		{dir + "/file:/dev/null", "cat /dev/null", "text", ""},
		{dir + ":/proc/self/cwd/mnt", "", "", "wolffia: "}, // a magic link
	} {
		r := run(t, inRoot(test.script, "-v", test.volume)...)
		if r.out != test.out || (test.err == "") != (r.err == "") || !strings.Contains(r.err, test.err) {
			t.Errorf("-v %s: %+v", strings.TrimPrefix(test.volume, dir), r)
		}
	}
	if got := read(t, dir+"/file"); got != "text" {
		t.Errorf("the file is %q now", got)
	}
}

// inMounts runs a script in a mount namespace where this user is root, "$0" being wolffia and "$1" the busybox root.
func inMounts(t testing.TB, script string) ran {
	t.Helper()
	return command{args: []string{needTool(t, "unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", script, wolffia, rootfs}}.do(t)
}

// opencontainers/runc#3710: flags of the source that the host locked.
func TestLockedFlags(t *testing.T) {
	script := `mount -t tmpfs -o noexec,nosuid,nodev t /mnt && cp /bin/true /mnt && mkdir /mnt/sub && mount -t tmpfs s /mnt/sub && touch /mnt/sub/x &&
		exec "$0" run --map single --rootfs "$1" -v /mnt:/mnt%s -- sh -c 'grep " /mnt " /proc/self/mountinfo | cut -d " " -f 6; /mnt/true; echo $?; touch /mnt/sub/y && echo y; rm -f /mnt/sub/x; ls /mnt/sub'`
	if r := inMounts(t, fmt.Sprintf(script, "")); !strings.HasPrefix(r.out, "rw,nosuid,nodev,noexec") || !strings.Contains(r.out, "\n126\ny\ny\n") {
		t.Errorf("%+v", r)
	}
	r := inMounts(t, fmt.Sprintf(script, ":ro"))
	if !strings.HasPrefix(r.out, "ro,nosuid,nodev,noexec") || !strings.Contains(r.out, "\n126\nx\n") || strings.Count(r.err, "Read-only file system") != 2 {
		t.Errorf("read-only, with what is mounted below: %+v", r)
	}
}

// moby/moby#40635: a mount made on the host later, below a source that is bound.
func TestPropagation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ options, seen string }{
		{`["rbind"]`, "hidden"},
		{`["rbind","rslave"]`, "seen"},
		{`["rbind","rprivate"]`, "hidden"},
	} {
		b := bundle(t, func(spec map[string]any) {
			spec["mounts"] = append(spec["mounts"].([]any), decodeJSON(t, `{"destination":"/mnt","source":"/mnt","options":`+test.options+`}`))
			setArgs(spec, "sh", "-c", "touch /mnt/go; for i in 1 2 3 4 5 6 7 8 9; do test -e /mnt/sub/late && echo seen && exit; sleep 0.05; done; echo hidden")
		})
		script := `mount -t tmpfs --make-shared t /mnt && mkdir /mnt/sub && { "$0" run --map single --bundle ` + b + ` & } &&
			for i in $(seq 100); do test -e /mnt/go && break; sleep 0.01; done; mount -t tmpfs t /mnt/sub && touch /mnt/sub/late; wait $!`
		if r := inMounts(t, script); strings.TrimSpace(r.out) != test.seen {
			t.Errorf("%s: %+v, want %s", test.options, r, test.seen)
		}
	}
}

// rbind takes what is mounted below along; without it, the kernel refuses to uncover it.
func TestBindWithoutRecursion(t *testing.T) {
	b := bundle(t, func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any), decodeJSON(t, `{"destination":"/mnt","source":"/dev","options":["bind"]}`))
		setArgs(spec, "ls", "/mnt")
	})
	run(t, "--bundle", b).refused(t, "/dev", "EINVAL", "rbind")
}

// Namespaces: each is new unless shared, and lo is up in a network of its own.
func TestNamespaces(t *testing.T) {
	own := map[string]string{}
	for _, ns := range []string{"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"} {
		own[ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	for _, shared := range []string{"", "net", "pid", "ipc", "uts", "cgroup", "net,pid,ipc,uts,cgroup"} {
		flags := []string{"--share", shared}
		if shared == "" {
			flags = nil
		}
		out := shell(t, "for n in user mnt pid ipc uts cgroup net; do echo $n $(readlink /proc/self/ns/$n); done", flags...)
		for line := range strings.Lines(out) {
			ns, inode, _ := strings.Cut(strings.TrimSpace(line), " ")
			if want := slices.Contains(strings.Split(shared, ","), ns); want != (inode == own[ns]) {
				t.Errorf("--share %q: %s is %s, ours %s", shared, ns, inode, own[ns])
			}
		}
	}
	host, _ := os.Hostname()
	if out := shell(t, "hostname", "--hostname", "other"); out != "other" {
		t.Errorf("--hostname: %q", out)
	}
	if out := shell(t, "hostname", "--share", "uts"); out != host {
		t.Errorf("--share uts: %q", out)
	}
}

// containerd/containerd#4021, #2004: while a container runs nothing of it is mounted outside, and a file held open in
// its tree from outside doesn't hinder the end.
func TestNothingMountedOutside(t *testing.T) {
	before := read(t, "/proc/self/mountinfo")
	s := start(t, command{args: append([]string{wolffia}, inRootRun("echo; exec sleep 100", "--tmpfs", "/held")...)})
	s.line(t)
	if now := read(t, "/proc/self/mountinfo"); now != before {
		t.Errorf("mounts outside:\n%s", strings.Join(difference(strings.Split(before, "\n"), strings.Split(now, "\n")), "\n"))
	}
	inside := firstChild(t, s.Process.Pid)
	held, err := os.Open(fmt.Sprintf("/proc/%d/root/held", inside))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.Process.Signal(unix.SIGTERM)
	begin := time.Now()
	if _, code := s.end(); code != 143 || time.Since(begin) > time.Second {
		t.Errorf("exit %d after %v", code, time.Since(begin))
	}
}

// firstChild is the container's first process: the one child of the launcher that has another pid namespace.
func firstChild(t testing.TB, launcher int) int {
	t.Helper()
	for pid, p := range processes() {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if own, _ := os.Readlink("/proc/self/ns/pid"); p.parent == launcher && err == nil && ns != own { // not the keeper
			return pid
		}
	}
	t.Fatalf("launcher %d has no child", launcher)
	return 0
}
