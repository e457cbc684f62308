package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cilium/tetragon#2187 (CVE-2024-21626): nothing but 0, 1, 2 and what was asked for is open, whatever the launcher was given.
func TestOpenFDs(t *testing.T) {
	pipes := func(n int) (files []*os.File) {
		for range n {
			f, err := os.Open("/dev/zero")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			files = append(files, f)
		}
		return files
	}
	for _, test := range []struct {
		flags []string
		given int
		want  string // fds beside 0, 1 and 2
	}{
		{nil, 0, ""},
		{nil, 7, ""},
		{[]string{"--preserve-fds", "2"}, 2, "3 /dev/zero 4 /dev/zero"},
		{[]string{"--preserve-fds", "2"}, 5, "3 /dev/zero 4 /dev/zero"},
		{[]string{"--preserve-fds", "1", "--user", "1000"}, 1, "3 /dev/zero"},
		{[]string{"--map", "single", "--preserve-fds", "30"}, 30, strings.TrimSpace(func() (s string) {
			for i := range 30 {
				s += fmt.Sprintf("%d /dev/zero ", i+3)
			}
			return s
		}())},
	} {
		r := command{args: append([]string{wolffia, "run"}, roleInside("fds", test.flags...)...), files: pipes(test.given)}.do(t)
		lines := strings.Split(r.ok(t), "\n")
		if got := strings.Join(lines[min(3, len(lines)):], " "); got != test.want {
			t.Errorf("%v with %d fds: open are %q, want %q", test.flags, test.given, got, test.want)
		}
	}
}

// opencontainers/runc#5474: asked for more than there are, an fd of the launcher's must not take the place.
func TestPreserveMissingFDs(t *testing.T) {
	for _, n := range []string{"1", "3", "100"} {
		run(t, inRoot("true", "--preserve-fds", n)...).refused(t, "--preserve-fds "+n, "fd 3", "EBADF")
	}
	f, _ := os.Open("/dev/zero")
	defer f.Close()
	c := command{args: append([]string{wolffia}, inRootRun("true", "--preserve-fds", "2")...), files: []*os.File{f}}
	c.do(t).refused(t, "fd 4")
	run(t, inRoot("true", "--preserve-fds", "-1")...).refused(t, "--preserve-fds -1")
}

// CVE-2024-21626: a working directory that a leaked fd or a magic link leads to.
func TestWorkingDirectory(t *testing.T) {
	root := busybox(t)
	symlink(t, "/proc/self/fd/7", root+"/fd7")
	symlink(t, "/proc/1/root", root+"/one")
	symlink(t, "/etc", root+"/plain")
	for n := range 30 {
		cwd := fmt.Sprintf("/proc/self/fd/%d", n)
		r := run(t, "--rootfs", root, "-w", cwd, "--", "cat", "/etc/passwd")
		if r.exits(t, 125); r.out != "" {
			t.Errorf("-w %s: %q", cwd, r.out)
		}
	}
	for _, cwd := range []string{"/fd7", "/one", "/proc/self/cwd", "/proc/self/root/etc", "/proc/1/root"} {
		run(t, "--rootfs", root, "-w", cwd, "--", "true").refused(t, "ELOOP", "CVE-2024-21626")
	}
	run(t, "--rootfs", root, "-w", "/nowhere", "--", "true").refused(t, "no such folder in the container")
	run(t, "--rootfs", root, "-w", "/bin/sh", "--", "true").refused(t, "ENOTDIR")
	run(t, "--rootfs", root, "-w", "etc", "--", "true").refused(t, "absolute")
	for cwd, want := range map[string]string{"/": "/", "/etc": "/etc", "/plain": "/etc", "/etc/../bin": "/bin", "/../../..": "/"} {
		if out := run(t, "--rootfs", root, "-w", cwd, "--", "readlink", "/proc/self/cwd").ok(t); out != want {
			t.Errorf("-w %s: in %s", cwd, out)
		}
	}
}

// "/.." is "/", no mount and no name of the host's tree is left, and nothing can be got back by undoing the root.
func TestNoWayBack(t *testing.T) {
	mark := write(t, t.TempDir()+"/mark", "", 0o644)
	for _, flags := range [][]string{nil, {"--map", "single"}, {"--cap-add", "ALL"}, {"--read-only"}} {
		out := shell(t, `for up in /.. /../.. /proc/../..; do test "$(stat -c %d:%i $up)" = "$(stat -c %d:%i /)" || echo UP; done
			umount / 2>/dev/null && echo UNDONE; umount -l /dev/.. 2>/dev/null && echo UNDONE
			ls /../../../../..`+mark+` 2>/dev/null; cat /proc/self/mountinfo`, flags...)
		if strings.Contains(out, "UP") || strings.Contains(out, "UNDONE") || strings.Contains(out, mark) {
			t.Errorf("%v: %s", flags, out)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, " /etc/hosts ") || strings.Contains(line, filepath.Dir(rootfs)+" ") || strings.Contains(line, "/mnt/") {
				t.Errorf("%v: a mount of the host's: %s", flags, line)
			}
		}
	}
}

// A root that someone else wrote: its links lead mounts and mount points nowhere but into itself.
// projectatomic/runc#54 (CVE-2021-30465), moby/moby#52648
func TestHostileRoot(t *testing.T) {
	out := t.TempDir() + "/out"
	src := t.TempDir()
	write(t, src+"/file", "volume", 0o644)
	os.Mkdir(out, 0o755)
	for _, link := range []struct{ name, to string }{
		{"proc", out}, {"proc", "/"}, {"proc", "../../../../../.." + out}, {"proc", "dev"},
		{"dev", out}, {"dev", "/proc/self/root" + out}, {"sys", out}, {"sys", "/proc"},
		{"mnt", out}, {"mnt", "/proc/self/root" + out}, {"mnt", "/proc/self/cwd"}, {"mnt", "../.." + out}, {"mnt", "/"}, {"mnt", "mnt"},
		{"mnt/a", out}, {"mnt/a", "/proc/1/root" + out}, {"mnt/a/b", out}, {"mnt/a/b", "/nowhere"}, {"mnt/a/b", out + "/made"},
	} {
		root := busybox(t)
		os.RemoveAll(root + "/" + link.name)
		os.MkdirAll(filepath.Dir(root+"/"+link.name), 0o755)
		symlink(t, link.to, root+"/"+link.name)
		os.MkdirAll(root+out, 0o755) // where the link leads, in the root
		for kind, args := range map[string][]string{
			"overlay":   {"--rootfs", root},
			"read-only": {"--rootfs", root, "--read-only"},
			"bundle":    {"--bundle", bundle(t, func(spec map[string]any) { spec["root"] = map[string]any{"path": root} })},
		} {
			args = append(args, "-v", src+":/mnt/a/b", "-v", src+"/file:/mnt/a/c/file", "--", "/bin/sh", "-c", "cat /mnt/a/b/file; test ! -e /proc/self || read pid rest </proc/self/stat; echo ${pid-1}; : >/dev/null")
			r := run(t, args...)
			switch {
			case r.code == 125 && strings.HasPrefix(r.err, "wolffia: "):
			case r.code == 0 && r.err == "" && strings.HasSuffix(r.out, "1\n"):
			default:
				t.Errorf("/%s -> %s, %s: %+v", link.name, link.to, kind, r)
			}
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Fatalf("/%s -> %s: made outside of the root: %v", link.name, link.to, left)
		}
	}
}

// containerd/nerdctl#4582 (CVE-2025-31133): masks come from the host's null device, whatever the root has in its place.
func TestHostileNull(t *testing.T) {
	out := write(t, t.TempDir()+"/file", "outside", 0o644)
	for name, plant := range map[string]func(dev string){
		"a link":         func(dev string) { symlink(t, out, dev+"/null") },
		"a regular file": func(dev string) { write(t, dev+"/null", "planted", 0o666) },
		"a folder":       func(dev string) { os.Mkdir(dev+"/null", 0o777) },
		"a link to proc": func(dev string) { symlink(t, "/proc/sysrq-trigger", dev+"/null") },
	} {
		root := busybox(t)
		write(t, root+"/etc/secret", "secret", 0o644)
		plant(root + "/dev")
		b := bundle(t, func(spec map[string]any) {
			spec["root"] = map[string]any{"path": root}
			var kept []any
			for _, m := range spec["mounts"].([]any) { // no /dev of its own: the devices are bound into the root's
				if !strings.HasPrefix(m.(map[string]any)["destination"].(string), "/dev") {
					kept = append(kept, m)
				}
			}
			spec["mounts"] = kept
			at(spec, "linux")["maskedPaths"] = []string{"/etc/secret", "/proc/keys"}
			setArgs(spec, "/bin/sh", "-c", "cat /etc/secret /proc/keys; stat -c %t:%T /etc/secret /proc/keys /dev/null; echo x >/dev/null; echo x >/etc/secret")
		})
		r := run(t, "--bundle", b)
		if r.code != 125 && r.out != "1:3\n1:3\n1:3\n" {
			t.Errorf("%s: %+v", name, r)
		}
		if read(t, out) != "outside" {
			t.Fatalf("%s: the file outside was written", name)
		}
	}
	// A mask below a volume hides what the volume shows.
	vol := t.TempDir()
	write(t, vol+"/secret", "secret", 0o644)
	b := bundle(t, func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{"destination": "/mnt", "source": vol, "options": []string{"rbind"}})
		at(spec, "linux")["maskedPaths"] = []string{"/mnt/secret"}
		setArgs(spec, "/bin/cat", "/mnt/secret")
	})
	if out := run(t, "--bundle", b).ok(t); out != "" {
		t.Errorf("masked below a volume: %s", out)
	}
	// A mask that is a link in the root, or whose parent is one, must not go elsewhere, nor be left out.
	root := busybox(t)
	write(t, root+"/etc/secret", "secret", 0o644)
	symlink(t, "etc", root+"/conf")
	symlink(t, "secret", root+"/etc/link")
	for _, masked := range []string{"/conf/secret", "/etc/link"} {
		b := bundle(t, func(spec map[string]any) {
			spec["root"] = map[string]any{"path": root}
			at(spec, "linux")["maskedPaths"] = []string{masked}
			setArgs(spec, "/bin/cat", "/etc/secret")
		})
		if r := run(t, "--bundle", b); r.code != 125 && r.out != "" {
			t.Errorf("masked %s: %+v", masked, r)
		}
	}
}

// projectatomic/runc#54: a thread exchanges a component of a mount's target with a link to "/" while containers start.
func TestSwappedTarget(t *testing.T) {
	out := t.TempDir() + "/out"
	root := busybox(t)
	for _, dir := range []string{out, root + "/mnt/a/b", root + out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, out, root+"/mnt/evil")
	symlink(t, "/proc/self/root"+out, root+"/evilproc")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			unix.Renameat2(unix.AT_FDCWD, root+"/mnt/a", unix.AT_FDCWD, root+"/mnt/evil", unix.RENAME_EXCHANGE)
			unix.Renameat2(unix.AT_FDCWD, root+"/proc", unix.AT_FDCWD, root+"/evilproc", unix.RENAME_EXCHANGE)
			time.Sleep(50 * time.Microsecond)
		}
	})
	b := bundle(t, func(spec map[string]any) { spec["root"] = map[string]any{"path": root} })
	started := 0
	for i := range 200 {
		args := []string{"--bundle", b}
		if i%2 == 0 {
			args = []string{"--rootfs", root, "--map", "single"}
		}
		r := run(t, append(args, "-v", "/usr:/mnt/a/b/new:ro", "--tmpfs", "/mnt/a/c", "--", "/bin/sh", "-c",
			"cat /proc/self/mountinfo")...)
		switch {
		case r.code == 125 && strings.HasPrefix(r.err, "wolffia: "):
			continue
		case r.code != 0 && !strings.Contains(r.err, "/proc/self/mountinfo"): // the link led proc elsewhere, inside
			t.Errorf("start %d: %+v", i, r)
		}
		started++
		if r.code == 0 {
			inside := parseMounts(t, r.out)
			if len(inside) < 10 || inside["/"].at == "" {
				t.Errorf("start %d: mounts %v", i, inside)
			}
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Fatalf("start %d: made outside of the root: %v", i, left)
		}
	}
	close(stop)
	swapping.Wait()
	if started == 0 {
		t.Error("none of the starts succeeded: the test shows nothing")
	}
}

// CVE-2019-5736: a program that is a link to the launcher's own binary is refused.
func TestLauncherAsProgram(t *testing.T) {
	root := busybox(t)
	symlink(t, "/proc/self/exe", root+"/bin/exelink")
	symlink(t, "/proc/self/exe", root+"/bin/version")
	symlink(t, "exelink", root+"/bin/linklink")
	symlink(t, "/proc/self", root+"/self")
	for _, kind := range [][]string{{"--rootfs", root}, {"--rootfs", root, "--read-only"}, {"--rootfs", root, "--map", "single"}, {"-v", root + "/bin:/mnt"}} {
		for _, program := range []string{"exelink", "linklink", "version", "/bin/exelink", "/self/exe", "/mnt/exelink", "/proc/self/exe", "/proc/1/exe",
			"/proc/self/root/proc/self/exe", "/proc/self/task/1/exe", "/proc/thread-self/exe"} {
			r := run(t, append(kind, "--", program, "version")...)
			if r.code < 125 || r.code > 127 || strings.Contains(r.out, "wolffia") || !strings.HasPrefix(r.err, "wolffia: nsexec: ") {
				t.Errorf("%v: %s ran: %+v", kind, program, r)
			}
		}
	}
	// Nor is it reachable from inside once a container runs.
	if out := shell(t, `for f in /proc/[0-9]*/exe; do readlink $f; done; readlink /proc/1/exe`); strings.Contains(out, "wolffia") {
		t.Errorf("inside, /proc shows %s", out)
	}
}

// opencontainers/runc#5272, CVE-2019-5736: an image can name the launcher's binary as interpreter or loader, so what
// runs must be nothing that the container's ids may write: a file of root's, or a sealed copy in memory.
func TestSealedCopy(t *testing.T) {
	need(t, os.Getuid() != 0, "an ordinary user")
	own := t.TempDir() + "/wolffia"
	write(t, own, read(t, wolffia), 0o755)
	s := start(t, command{args: append([]string{own}, inRootRun("echo; exec sleep 100")...)})
	s.line(t)
	exe := fmt.Sprintf("/proc/%d/exe", s.Process.Pid)
	if to, err := os.Readlink(exe); err != nil || !strings.HasPrefix(to, "/memfd:") {
		t.Errorf("it runs %s (%v)", to, err)
	}
	fd, err := unix.Open(exe, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&all != all {
		t.Errorf("seals %#x (%v)", seals, err)
	}
	if f, err := os.OpenFile(own, os.O_WRONLY, 0); err != nil {
		t.Errorf("nothing executes the file itself, and it can't be written: %v", err)
	} else {
		f.Close()
	}
	s.Process.Signal(unix.SIGTERM)
	s.end()

	root := busybox(t)
	for name, text := range map[string]string{
		"script": "#!/proc/self/exe version\n", "init": "#!/proc/1/exe version\n", "nested": "#!/bin/script\n", "link": "#!/bin/l version\n",
		"loaded": elf("/proc/self/exe"), "loadedlink": elf("/bin/l"), "loadedscript": "#!/bin/loaded\n",
	} {
		write(t, root+"/bin/"+name, text, 0o755)
	}
	symlink(t, "/proc/self/exe", root+"/bin/l")
	before := sha256.Sum256([]byte(read(t, own)))
	for _, program := range []string{"script", "init", "nested", "link", "loaded", "loadedlink", "loadedscript"} {
		for _, kind := range [][]string{{"--rootfs", root, "--", program}, {"-v", root + "/bin:/mnt", "--", "/mnt/" + program}} {
			command{args: append([]string{own, "run"}, append(kind, "version")...)}.do(t)
		}
	}
	if sha256.Sum256([]byte(read(t, own))) != before {
		t.Fatal("the launcher's binary changed")
	}
	// The copy costs no fd and no word of the command line.
	f, _ := os.Open("/dev/zero")
	defer f.Close()
	r := command{args: append([]string{own, "run"}, roleInside("fds", "--preserve-fds", "1")...), files: []*os.File{f}}.do(t)
	if lines := strings.Split(r.ok(t), "\n"); len(lines) != 4 || lines[3] != "3 /dev/zero" {
		t.Errorf("open inside: %q", lines)
	}
}

// What the launcher's own memory and process show: nothing, from inside.
func TestLauncherOutOfSight(t *testing.T) {
	out := shell(t, `echo /proc/[0-9]*; grep -c wolffia /proc/1/maps /proc/1/environ; tr '\0' ' ' </proc/1/environ; cat /proc/self/stat | cut -d ' ' -f 4,5,6`)
	lines := strings.Split(out, "\n")
	if len(lines) < 4 || lines[1] != "/proc/1/maps:0" || lines[2] != "/proc/1/environ:0" || strings.Contains(out, "WOLFFIA_") {
		t.Errorf("%s", out)
	}
}

// containers/bubblewrap#142: characters pushed into the caller's terminal.
func TestTIOCSTI(t *testing.T) {
	master, slave := terminal(t)
	for _, flags := range [][]string{nil, {"--map", "single"}, {"--cap-add", "ALL"}, {"--share", "pid"}} {
		c := asRole("terminal", append([]string{wolffia, "run"}, roleInside("push", flags...)...)...)
		cmd := c.exec()
		var out strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, &out, &out
		err := cmd.Run()
		if err != nil || !strings.Contains(out.String(), "/dev/stdin TIOCSCTTY") {
			t.Errorf("%v: %v\n%s", flags, err, &out)
		}
		var waiting int32
		unix.Syscall(unix.SYS_IOCTL, slave.Fd(), unix.TIOCINQ, uintptr(unsafe.Pointer(&waiting)))
		if waiting != 0 {
			t.Errorf("%v: %d characters were pushed\n%s", flags, waiting, &out)
		}
	}
	master.Close()
}

// terminal is a pseudo-terminal in raw mode.
func terminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err1 := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err2 := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag &^= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "master"), slave
}

// docker's 14 capabilities exactly, in every set that matters, and what flags make of them.
func TestCapabilities(t *testing.T) {
	const docker, all = 0xa80425fb, 1<<41 - 1
	for _, test := range []struct {
		flags string
		want  uint64
	}{
		{"", docker},
		{"--map single", docker},
		{"--cap-drop ALL", 0},
		{"--cap-drop ALL --cap-add NET_ADMIN", 1 << unix.CAP_NET_ADMIN},
		{"--cap-add SYS_ADMIN,cap_sys_ptrace", docker | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE},
		{"--cap-drop MKNOD --cap-drop CAP_CHOWN", docker &^ (1<<unix.CAP_MKNOD | 1<<unix.CAP_CHOWN)},
		{"--cap-add ALL", all},
		{"--cap-add ALL --cap-drop SYS_ADMIN", all &^ (1 << unix.CAP_SYS_ADMIN)},
	} {
		out := shell(t, "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNew)' /proc/self/status | cut -f 2", strings.Fields(test.flags)...)
		w := fmt.Sprintf("%016x", test.want)
		if got := strings.Fields(out); len(got) != 6 || got[0] != fmt.Sprintf("%016x", 0) || got[1] != w || got[2] != w || got[3] != w || got[4] != got[0] || got[5] != "1" {
			t.Errorf("%s: %q, want %s", test.flags, got, w)
		}
	}
	// Another user than root has them bounded and permitted, for none is ambient: execve(2) clears the rest.
	if out := shell(t, "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status | cut -f 2", "--user", "1000"); strings.Trim(out, "0\n") != "" {
		t.Errorf("uid 1000 has %q", out)
	}
	run(t, inRoot("true", "--cap-add", "FLY")...).refused(t, "FLY", "--cap-add")
	if r := run(t, inRoot("mknod /tmp/n c 1 3; mount -t tmpfs t /mnt; chroot / true && echo root", "--cap-drop", "SYS_CHROOT")...); r.out != "" || strings.Count(r.err, "ermitted")+strings.Count(r.err, "denied") != 3 {
		t.Errorf("%+v", r)
	}
}

// no_new_privs: a set-uid file gives nothing.
func TestSetUID(t *testing.T) {
	dir := t.TempDir()
	self, _ := os.Executable()
	write(t, dir+"/suid", read(t, self), 0o755)
	if err := os.Chmod(dir+"/suid", 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	out := run(t, "-v", dir+":/mnt", "--user", "1000:1001", "-e", "WOLFFIA_E2E_ROLE=ids", "--", "/mnt/suid").ok(t)
	if out != "1000 1000 1001 1001" {
		t.Errorf("a set-uid file of root's: %s", out)
	}
}

// The limits of the caller are the program's, whatever the launcher changed of its own: RLIMIT_CORE to 0 until execve,
// RLIMIT_NOFILE by the Go runtime.
func TestLimitsRestored(t *testing.T) {
	prlimit := needTool(t, "prlimit")
	args := append([]string{prlimit, "--core=4096:8192", "--nofile=200:300", "--stack=4194304:", wolffia, "run"},
		inRoot("grep -E '^Max (core|open|stack)' /proc/self/limits | tr -s ' ' | cut -d ' ' -f 4-6")...)
	out := command{args: args}.do(t).ok(t)
	if !strings.Contains(out, "4096 8192") || !strings.Contains(out, "200 300") || !strings.Contains(out, "4194304 ") {
		t.Errorf("%q", out)
	}
	out = shell(t, "ulimit -Sn; ulimit -Hn; ulimit -Sc", "--ulimit", "nofile=50:60", "--ulimit", "core=0")
	if out != "50\n60\n0" {
		t.Errorf("--ulimit: %q", out)
	}
}
