package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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

// outside is what /proc/PID/exe of a launcher leads to while its container runs.
func outside(t *testing.T, launcher string, args ...string) string {
	t.Helper()
	s := start(t, command{args: append([]string{launcher}, args...)})
	s.line(t)
	defer func() {
		s.Process.Signal(unix.SIGTERM)
		s.end()
	}()
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// opencontainers/runc#5272, CVE-2019-5736: an image can name the launcher's binary as interpreter or loader, so what
// runs must be nothing that the container's ids may write: a file of root's, or a sealed copy in memory.
func TestSealedCopy(t *testing.T) {
	need(t, os.Getuid() != 0, "an ordinary user")
	// Its owner can make a read-only binary writable first, and the container's root is its owner.
	readOnly := t.TempDir() + "/wolffia"
	write(t, readOnly, read(t, wolffia), 0o555)
	if out := outside(t, readOnly, inRootRun("echo; exec sleep 100")...); !strings.HasPrefix(out, "/memfd:") {
		t.Errorf("a binary of mode 0555 runs as %s", out)
	}
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
