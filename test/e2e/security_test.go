package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	// "no core dumps" of limits.conf: a soft limit above 0 can't be had
	none := command{args: append([]string{prlimit, "--core=0:0", wolffia, "run"}, inRoot("ulimit -Sc; ulimit -Hc")...)}.do(t).ok(t)
	if none != "0\n0" {
		t.Errorf("core 0:0: %q", none)
	}
	out = shell(t, "ulimit -Sn; ulimit -Hn; ulimit -Sc", "--ulimit", "nofile=50:60", "--ulimit", "core=0")
	if out != "50\n60\n0" {
		t.Errorf("--ulimit: %q", out)
	}
}
