package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a container does to its root is gone afterwards; TestMain sees that the folder itself never changed.
func TestThrowAwayLayer(t *testing.T) {
	script := `echo new >/etc/new && echo m:x:1:1::/: >>/etc/passwd && rm /bin/vi && rm -r /var && mkdir -p /var/a/b &&
		chmod 700 /root && mv /home /house && ln /etc/group /etc/link && chown 5:6 /etc/group && ls -d /var/tmp 2>&1; cat /etc/new; ls -d /house; stat -c %u /etc/link`
	if out := shell(t, script); out != "ls: /var/tmp: No such file or directory\nnew\n/house\n5" {
		t.Errorf("got %q", out)
	}
	if out := shell(t, "ls /etc /home; ls /bin/vi; stat -c %u /etc/group"); strings.Contains(out, "new") || !strings.HasSuffix(out, "/bin/vi\n0") {
		t.Errorf("afterwards %q", out)
	}
}

// google/gvisor#14033 (renaming a lower folder), podman-container-tools/podman#13123 (links and renames over layers)
func TestOverlayFiles(t *testing.T) {
	lower := t.TempDir()
	write(t, lower+"/dir/sub/file", "content", 0o644)
	out := shell(t, "mv /mnt/dir /mnt/moved; cat /mnt/moved/sub/file; ls /mnt; rm -r /mnt/moved; ls /mnt; mkdir /mnt/dir; ls /mnt/dir",
		"--lower", onlyMnt(t, lower))
	if out != "contentmoved" {
		t.Errorf("got %q", out)
	}
	if read(t, lower+"/dir/sub/file") != "content" {
		t.Error("the lower file changed")
	}
}

// onlyMnt is a layer that shows the content of dir at /mnt.
func onlyMnt(t testing.TB, dir string) string {
	t.Helper()
	layer := t.TempDir()
	if err := os.Rename(dir, layer+"/mnt"); err != nil {
		t.Fatal(err)
	}
	symlink(t, layer+"/mnt", dir)
	return layer
}

// Layers lie in the order in which they were named, below --rootfs.
func TestLowerOrder(t *testing.T) {
	top, low := t.TempDir(), t.TempDir()
	write(t, top+"/mnt/both", "top", 0o644)
	write(t, low+"/mnt/both", "low", 0o644)
	write(t, low+"/mnt/low", "low", 0o644)
	write(t, low+"/etc/passwd", "hidden by --rootfs", 0o644)
	out := shell(t, "cat /mnt/both /mnt/low; head -c 4 /etc/passwd", "--lower", top, "--lower", low)
	if out != "toplowroot" {
		t.Errorf("got %q", out)
	}
}

// batocera-linux/batocera.linux#15826 (a comma split the options), google/nsjail#183 (':' was the delimiter),
// kata-containers/kata-containers#13119 and e2b-dev/infra#836 (many layers, long paths: truncated)
func TestLayerNames(t *testing.T) {
	long := t.TempDir() + strings.Repeat("/"+strings.Repeat("long", 50), 4)
	for _, name := range []string{"with,comma", "with:colon", "with space", `with\backslash`, `a"b'c`, "new\nline", "=", "-x", "ü€", long} {
		base := t.TempDir() + "/" + name
		if strings.HasPrefix(name, "/") {
			base = name
		}
		lower, upper := base+"/lower", base+"/upper"
		write(t, lower+"/mnt/file", "lower", 0o644)
		os.Mkdir(upper, 0o755)
		if out := shell(t, "cat /mnt/file; echo upper >/mnt/new", "--lower", lower, "--upper", upper, "-v", base+":/home/base"); out != "lower" {
			t.Errorf("%q: %q", name, out)
		}
		if got := read(t, upper+"/mnt/new"); got != "upper\n" {
			t.Errorf("%q: the upper layer has %q", name, got)
		}
	}
	var flags []string
	for i := range 40 {
		dir := fmt.Sprintf("%s/%d", long, i)
		write(t, fmt.Sprintf("%s/mnt/%d", dir, i), "", 0o644)
		flags = append(flags, "--lower", dir)
	}
	if out := shell(t, "ls /mnt | wc -l", flags...); out != "40" {
		t.Errorf("of 40 layers %s are there", out)
	}
}

// podman-container-tools/buildah#1709: what was removed stays removed when the upper layer becomes a lower one.
func TestUpperKeeps(t *testing.T) {
	upper := t.TempDir() + "/upper"
	os.Mkdir(upper, 0o755)
	script := "echo kept >/etc/kept; rm /etc/group; rm -r /var; mkdir /var; touch /var/new"
	shell(t, script, "--upper", upper)
	if got := read(t, upper+"/etc/kept"); got != "kept\n" {
		t.Errorf("%q", got)
	}
	want := "/etc/kept /etc/passwd /var/new"
	if out := shell(t, "echo /etc/* /var/*", "--upper", upper); out != want {
		t.Errorf("again with it: %q", out)
	}
	out := run(t, "--rootfs", upper, "--lower", rootfs, "--", "sh", "-c", "echo /etc/* /var/*").ok(t)
	if out != want {
		t.Errorf("as a lower layer: %q", out)
	}
	if _, err := os.Lstat(upper + ".work"); err == nil {
		t.Error("the work folder is left")
	}
}

// moby/moby#37970: one upper layer, two containers.
func TestUpperBusy(t *testing.T) {
	t.Parallel()
	upper := t.TempDir() + "/upper"
	os.Mkdir(upper, 0o755)
	s := start(t, command{args: append([]string{wolffia}, inRootRun("echo; exec sleep 100", "--upper", upper)...)})
	s.line(t)
	run(t, inRoot("true", "--upper", upper)...).refused(t, "--upper", upper, "another container uses it", fmt.Sprint(s.Process.Pid))
	s.Process.Kill()
	s.end()
	shell(t, "touch /after", "--upper", upper) // the lock and the work folder of the dead are no obstacle
	if _, err := os.Stat(upper + "/after"); err != nil {
		t.Error(err)
	}
}

// containers/fuse-overlayfs#364, coreos/fedora-coreos-tracker#1749: layers that overlap, an upper layer on an overlay.
func TestUpperRefused(t *testing.T) {
	root := busybox(t)
	run(t, "--rootfs", root, "--lower", root+"/etc", "--", "true").refused(t, "ELOOP", "two layers overlap", root)
	run(t, "--rootfs", root, "--upper", root, "--", "true").refused(t, root)
	unshare := needTool(t, "unshare")
	script := `mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m && mount -t overlay -o userxattr,lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m &&
		mkdir /mnt/m/upper && exec "$0" run --map single --rootfs "$1" --upper /mnt/m/upper -- true`
	command{args: []string{unshare, "--user", "--map-root-user", "--mount", "sh", "-c", script, wolffia, rootfs}}.do(t).
		refused(t, "upper layer", "another overlay", "ext4, xfs or btrfs")
}

// google/nsjail#330: the source's nosuid and nodev are locked, and read-only has to keep them.
func TestReadOnlyRoot(t *testing.T) {
	r := run(t, "--rootfs", rootfs, "--read-only", "--", "sh", "-c", `touch /x; touch /tmp/x; echo x >/bin/busybox; touch /dev/shm/ok && echo ok; grep ' / / ' /proc/self/mountinfo`)
	if strings.Count(r.err, "Read-only file system") != 3 || !strings.HasPrefix(r.out, "ok\n") {
		t.Errorf("%+v", r)
	}
	unshare := needTool(t, "unshare")
	script := `mount -t tmpfs -o nosuid,nodev,mode=755 t /mnt && cp -a "$1"/. /mnt && exec "$0" run --map single --rootfs /mnt --read-only -- grep ' / / ' /proc/self/mountinfo`
	out := command{args: []string{unshare, "--user", "--map-root-user", "--mount", "sh", "-c", script, wolffia, rootfs}}.do(t).ok(t)
	if f := strings.Fields(out); len(f) < 6 || !strings.HasPrefix(f[5], "ro,nosuid,nodev") {
		t.Errorf("mountinfo: %q", out)
	}
}

// containers/crun#249: a folder above the root that can be entered but not read.
func TestUnreadableParent(t *testing.T) {
	root := busybox(t)
	parent := root[:strings.LastIndexByte(root, '/')]
	if err := os.Chmod(parent, 0o311); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(parent, 0o755)
	run(t, "--rootfs", root, "--", "true").ok(t)
	run(t, "--rootfs", root, "--read-only", "--", "true").ok(t)
}

// A view of this machine: the programs of the host, nobody's files, and nothing that stays.
func TestHostView(t *testing.T) {
	secret := write(t, t.TempDir()+"/secret", "", 0o644)
	home, _ := os.UserHomeDir()
	script := `ls -A /home /root /tmp /run /mnt; test -e "$1" && echo the secret; test -e "$2" && echo home
		touch /tmp/a /run/a /root/a /etc/a /var/a || echo not writable
		touch /usr/a /opt/a 2>&1 | grep -c Read-only; id -u; readlink /bin`
	out := run(t, "--", "sh", "-c", script, "sh", secret, home).ok(t)
	link, _ := os.Readlink("/bin")
	if want := strings.TrimSuffix("/home:\n\n/mnt:\n\n/root:\n\n/run:\n\n/tmp:\n2\n0\n"+link, "\n"); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	for _, path := range []string{"/etc/a", "/var/a"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is on the host", path)
		}
	}
}

// Nothing can be read in a view of this machine that the user can't read, although he is root in there.
func TestHostViewSecrets(t *testing.T) {
	need(t, os.Getuid() != 0, "an ordinary user")
	var closed []string
	for _, file := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/var/log/btmp", "/var/lib/private/x", "/etc/ssl/private/x", "/root/.profile"} {
		if _, err := os.ReadFile(file); errors.Is(err, os.ErrPermission) {
			closed = append(closed, file)
		}
	}
	need(t, len(closed) > 0, "a file that this user can't read")
	script := `for f; do head -c 1 "$f" 2>/dev/null && echo "$f"; cp "$f" /tmp/x 2>/dev/null && echo "$f"; done; true`
	if out := run(t, append([]string{"--", "sh", "-c", script, "sh"}, closed...)...).ok(t); out != "" {
		t.Errorf("of %q it reads %s", closed, out)
	}
}

// containerd/containerd#2004: where tmpfs has no user xattrs (before Linux 6.6, and here under a filter that says so), the
// throw-away layer lies in a folder of the user's. It goes at the end, and that of a killed launcher at the next start.
func TestScratchFolder(t *testing.T) {
	data := t.TempDir()
	scratch := data + "/wolffia/scratch"
	old := func(args ...string) command {
		c := asRole("filter", append([]string{"fsetxattr=EPERM", wolffia, "run", "--map", "single"}, args...)...)
		c.env = append(c.env, "XDG_DATA_HOME="+data)
		return c
	}
	left := func() int { entries, _ := os.ReadDir(scratch); return len(entries) }
	script := "rm -r /etc && mkdir /etc && echo new >/etc/new && cat /etc/new && mkdir -m 0 /closed && touch /var/x"
	r, res := old(inRoot(script)...).withResult(t, 4)
	if r.ok(t) != "new" || !strings.Contains(strings.Join(res.Notes, "\n"), scratch) || left() != 0 {
		t.Errorf("%+v, %d folders left, notes %q", r, left(), res.Notes)
	}
	if out := old("--", "sh", "-c", "touch /etc/x /var/x; echo $?").do(t).ok(t); out != "0" || left() != 0 {
		t.Errorf("a view of this machine: %s, %d folders left", out, left())
	}
	s := start(t, old(inRoot("echo; exec sleep 100")...))
	s.line(t)
	if left() != 1 {
		t.Errorf("%d folders while it runs", left())
	}
	other := old(inRoot("true")...)
	other.do(t).ok(t) // must leave that one alone
	if left() != 1 {
		t.Errorf("%d folders while the first runs", left())
	}
	s.Process.Kill()
	s.end()
	entries, _ := os.ReadDir(scratch)
	for _, e := range entries { // younger ones may be between their making and their lock
		os.Chtimes(scratch+"/"+e.Name(), time.Now(), time.Now().Add(-2*time.Minute))
	}
	if other.do(t).ok(t); left() != 0 {
		t.Errorf("%d folders of the dead are left", left())
	}
}

// The same with files of the container's other users, which are not the user's to remove.
func TestRootScratchFolder(t *testing.T) {
	data := t.TempDir()
	os.Chmod(filepath.Dir(data), 0o755)
	os.Chmod(data, 0o777)
	c := asUser(t, "12345", wolffia, "run", "--rootfs", rootfs, "--", "sh", "-c", "mkdir -m 700 /a && touch /a/b && chown -R 5:6 /a && stat -c %u /a/b")
	filter := asRole("filter", append([]string{"fsetxattr=EPERM"}, c.args...)...)
	filter.env = append(filter.env, append(c.env, "XDG_DATA_HOME="+data)...)
	if out := filter.do(t).ok(t); out != "5" {
		t.Errorf("%q", out)
	}
	if left, _ := os.ReadDir(data + "/wolffia/scratch"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A view of this machine inside a container of another kind, which mounts /etc/resolv.conf: overlayfs takes no layer with
// a locked mount below it, so the folder is shown entry by entry.
func TestHostViewOverMounts(t *testing.T) {
	script := `echo "nameserver 192.0.2.1" >/mnt/resolv && mount --bind /mnt/resolv /etc/resolv.conf && mount -t tmpfs t /var/lib && touch /var/lib/below &&
		exec "$0" run --map single -- sh -c 'cat /etc/resolv.conf; ls /var/lib; touch /etc/new /var/new /var/tmp/new && echo made; head -n 1 /etc/passwd | cut -d : -f 1; readlink /etc/mtab; echo x >>/etc/passwd'`
	r := inMounts(t, "mount -t tmpfs t /mnt && "+script)
	if r.out != "nameserver 192.0.2.1\nbelow\nmade\nroot\n"+readlink("/etc/mtab")+"\n" || !strings.Contains(r.err, "cannot create /etc/passwd") {
		t.Errorf("%+v", r)
	}
}

func readlink(path string) string {
	target, _ := os.Readlink(path)
	return target
}
