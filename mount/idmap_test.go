package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/test/filter"
	"wolffia.dev/userns"
)

func missing(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatal("missing: " + fact)
	}
	t.Skip("missing: " + fact)
}

// workshop is a tmpfs in a mount namespace of this thread's, which ends with the test, and a user namespace in which
// the ids from 0 on are those from 500000 on outside.
func workshop(t *testing.T) (dir string, ns int) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root")
	}
	dir = t.TempDir()
	runtime.LockOSThread()
	check(t, unix.Unshare(unix.CLONE_NEWNS))
	check(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) }) // before the folder is removed with all that is in it
	m := userns.IDMap{{Inside: 0, Outside: 500000, Length: 1000}}
	file, err := userns.Open(t.Context(), m, m)
	check(t, err)
	t.Cleanup(func() { file.Close() })
	check(t, os.MkdirAll(dir+"/source/below", 0o777))
	check(t, os.Mkdir(dir+"/at", 0o755))
	check(t, os.WriteFile(dir+"/source/file", nil, 0o644))
	check(t, os.Chown(dir+"/source/file", 7, 8))
	return dir, int(file.Fd())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func owner(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Stat(path, &st))
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// attach puts a detached mount where it can be looked at.
func attach(t testing.TB, tree *os.File, at string) {
	t.Helper()
	check(t, unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	check(t, tree.Close())
}

// Owners appear mapped through the clone and are as ever on disk, in both directions.
func TestRootIDMapped(t *testing.T) {
	dir, ns := workshop(t)
	tree, err := IDMapped(dir+"/source", ns, false)
	check(t, err)
	attach(t, tree, dir+"/at")
	if got := owner(t, dir+"/at/file"); got != "500007:500008" {
		t.Errorf("through the mount the owner is %s", got)
	}
	// Root has no id through this mount.
	if err := os.WriteFile(dir+"/at/new", nil, 0o644); !errors.Is(err, unix.EOVERFLOW) {
		t.Errorf("root makes a file: %v", err)
	}
	check(t, unix.Chown(dir+"/at/file", 500009, 500010))
	if got := owner(t, dir+"/source/file"); got != "9:10" {
		t.Errorf("on disk the owner is %s", got)
	}
}

// What is mounted below is mapped or not, as asked.
func TestRootIDMappedBelow(t *testing.T) {
	for _, recursive := range []bool{false, true} {
		t.Run(fmt.Sprint("recursive=", recursive), func(t *testing.T) {
			dir, ns := workshop(t)
			check(t, unix.Mount("tmpfs", dir+"/source/below", "tmpfs", 0, ""))
			tree, err := IDMapped(dir+"/source", ns, recursive)
			check(t, err)
			attach(t, tree, dir+"/at")
			if got := owner(t, dir+"/at/below"); got != "500000:500000" {
				t.Errorf("the folder below belongs to %s", got)
			}
			_, attached := mountAt(dir + "/at/below")
			if attached != recursive {
				t.Errorf("the mount below came along: %v", attached)
			}
		})
	}
}

func mountAt(path string) (mountEntry, bool) {
	for _, m := range mountTable() {
		if m.at == path {
			return m, true
		}
	}
	return mountEntry{}, false
}

// containers/crun#1382: file systems that can't be idmapped are named, with the call; the source stays as it was.
func TestRootIDMapRefused(t *testing.T) {
	dir, ns := workshop(t)
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		missing(t, "/dev/fuse")
	}
	defer unix.Close(fuse) // ends that file system, which never had a server
	for _, name := range []string{"fuse", "merged", "upper", "work", "sys"} {
		check(t, os.Mkdir(dir+"/"+name, 0o755))
	}
	check(t, unix.Mount("fuse", dir+"/fuse", "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)))
	check(t, unix.Mount("overlay", dir+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/source,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)))
	check(t, unix.Mount("sysfs", dir+"/sys", "sysfs", 0, ""))
	check(t, unix.Mount("proc", dir+"/source/below", "proc", 0, ""))
	for _, test := range []struct{ path, fstype, cause string }{
		{"/proc", "proc", "no kernel idmaps it"},
		{dir + "/sys", "sysfs", "no kernel idmaps it"},
		{dir + "/fuse", "fuse", "FUSE_ALLOW_IDMAP"},
		{dir + "/merged", "overlay", "only the layers"},
		{dir + "/source", "tmpfs", dir + "/source/below is mounted below it: proc is made up"},
	} {
		before, attrs, fds := mountTable(), mountAttrsOf(t, existing(test.path)), openFDs(t)
		tree, err := IDMapped(test.path, ns, true)
		var fault *IDMapError
		if tree != nil || !errors.As(err, &fault) || !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v, %v", test.path, tree, err)
			continue
		}
		if fault.Path != test.path || fault.FSType != test.fstype || !strings.Contains(fault.Cause, test.cause) || fault.Remedy == "" || fault.Call == "" {
			t.Errorf("%s: %+v", test.path, fault)
		}
		if after := mountTable(); fmt.Sprint(after) != fmt.Sprint(before) || mountAttrsOf(t, existing(test.path)) != attrs {
			t.Errorf("%s: mounts were\n%v\nand are\n%v", test.path, before, after)
		}
		if now := openFDs(t); now != fds {
			t.Errorf("%s: %d fds, before %d", test.path, now, fds)
		}
	}
}

// Kernels before 6.15 and filters that are older than open_tree_attr(2): two calls do the same, and leave as little.
func TestRootIDMapOlder(t *testing.T) {
	if os.Geteuid() != 0 {
		missing(t, "root")
	}
	for _, errno := range []string{"ENOSYS", "EPERM"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRootIDMap(ped|pedBelow|Refused)$", "-test.v")
		cmd.Env = append(os.Environ(), "WOLFFIA_TEST_FILTER=open_tree_attr="+errno)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "\n--- PASS: TestRoot") != 3 {
			t.Errorf("%s: %v\n%s", errno, err, out)
		}
	}
}

func TestMain(m *testing.M) {
	if rules := os.Getenv("WOLFFIA_TEST_FILTER"); rules != "" {
		if err := filter.Install(rules); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

// existing spares statx(2) the file system without a server.
func existing(path string) string {
	if strings.HasSuffix(path, "/fuse") {
		return "/"
	}
	return path
}

// containerd/containerd#8339: an ordinary fd in place of a detached tree is refused, and the mount that it lies on is
// as before.
func TestRootIDMapAttached(t *testing.T) {
	dir, ns := workshop(t)
	attrs := mountAttrsOf(t, dir)
	for _, flags := range []int{unix.O_RDONLY, unix.O_PATH} {
		for _, path := range []string{dir, dir + "/source"} {
			fd, err := unix.Open(path, flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			check(t, err)
			err = IDMap(fd, ns, true)
			check(t, unix.Close(fd))
			var fault *IDMapError
			if !errors.As(err, &fault) || fault.Errno != unix.EINVAL || !strings.Contains(fault.Cause, "attached at "+dir) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if now := mountAttrsOf(t, dir); now != attrs || owner(t, dir+"/source/file") != "7:8" {
		t.Errorf("attributes were %x and are %x, owner %s", attrs, now, owner(t, dir+"/source/file"))
	}
}

// A tree that somebody else cloned, and one that is idmapped already: its map can't be changed without a clone.
func TestRootIDMapTree(t *testing.T) {
	dir, ns := workshop(t)
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir+"/source", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	check(t, err)
	tree := os.NewFile(uintptr(fd), "tree")
	check(t, IDMap(fd, ns, false))
	var fault *IDMapError
	if err := IDMap(fd, ns, false); !errors.As(err, &fault) || fault.Errno != unix.EPERM || !strings.Contains(fault.Cause, "idmapped already") {
		t.Error(err)
	}
	attach(t, tree, dir+"/at")
	if got := owner(t, dir+"/at/file"); got != "500007:500008" {
		t.Error(got)
	}
}

// The clone of a shared mount would be its peer.
func TestRootIDMappedIsPrivate(t *testing.T) {
	dir, ns := workshop(t)
	check(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	tree, err := IDMapped(dir+"/source", ns, true)
	check(t, err)
	attach(t, tree, "/mnt")
	check(t, unix.Mount("tmpfs", "/mnt/below", "tmpfs", 0, ""))
	if m, ok := mountAt(dir + "/source/below"); ok {
		t.Errorf("what was mounted in the clone appeared at its source: %+v", m)
	}
}

// opencontainers/runc#3717: an ordinary user has no privilege over the file system of his home.
func TestIDMappedByUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("runs in the run as an ordinary user")
	}
	dir := t.TempDir()
	uids, gids := userns.IDMap{{Outside: uint32(os.Getuid()), Length: 1}}, userns.IDMap{{Outside: uint32(os.Getgid()), Length: 1}}
	ns, err := userns.Open(t.Context(), uids, gids)
	check(t, err)
	defer ns.Close()
	_, err = IDMapped(dir, int(ns.Fd()), false)
	var fault *IDMapError
	if !errors.As(err, &fault) || fault.Errno != unix.EPERM || fault.Path != dir || fault.FSType == "" ||
		!strings.Contains(fault.Cause, "CAP_SYS_ADMIN") || !strings.Contains(fault.Remedy, "chown") {
		t.Errorf("%v", err)
	}
}

func TestIDMapWrongNamespace(t *testing.T) {
	net, err := os.Open("/proc/self/ns/mnt")
	check(t, err)
	defer net.Close()
	plain, err := os.Open("/dev/null")
	check(t, err)
	defer plain.Close()
	for fd, want := range map[int]unix.Errno{int(net.Fd()): unix.EINVAL, int(plain.Fd()): unix.EINVAL, -1: unix.EBADF} {
		_, err := IDMapped("/", fd, false)
		var fault *IDMapError
		if !errors.As(err, &fault) || fault.Errno != want || !strings.Contains(fault.Cause, "this is none") {
			t.Errorf("fd %d: %v", fd, err)
		}
	}
}

func TestIDMapErrorText(t *testing.T) {
	cause, remedy := WhyNotIDMapped([]Filesystem{{Type: "sysfs"}}, unix.EINVAL)
	err := &IDMapError{"/sys", "sysfs", "open_tree_attr", unix.EINVAL, cause, remedy}
	const want = `mount: idmap "/sys" (sysfs): open_tree_attr: invalid argument (EINVAL)
  sysfs is made up by the kernel and keeps no owners of files: no kernel idmaps it
  bind it plainly, without idmap; or copy it to ext4, xfs, btrfs (Linux 5.15) or tmpfs (6.3); or chown it to the ids that it shall have`
	if err.Error() != want || !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
}

func TestWhyNotIDMapped(t *testing.T) {
	for _, test := range []struct{ fstype, want string }{
		{"tmpfs", "since Linux 6.3"}, {"fuse.sshfs", "FUSE_ALLOW_IDMAP"}, {"nfs4", "nfs4 doesn't allow"}, {"overlay", "layers"},
		{"cgroup2", "made up by the kernel"}, {"", "this file system doesn't allow"},
	} {
		if cause, remedy := WhyNotIDMapped([]Filesystem{{Type: test.fstype}}, unix.EINVAL); !strings.Contains(cause, test.want) || remedy == "" {
			t.Errorf("%s: %q, %q", test.fstype, cause, remedy)
		}
	}
	if cause, _ := WhyNotIDMapped([]Filesystem{{Type: "ext4"}}, unix.EIO); cause != "" {
		t.Error(cause)
	}
}

// The types come from the mount table, which names what statfs(2) doesn't.
func TestFilesystems(t *testing.T) {
	for path, want := range map[string]Filesystem{"/proc/self": {"/proc", "proc"}, "/sys/kernel": {"/sys", "sysfs"}} {
		if got, err := Filesystems(path); err != nil || got[0] != want {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	all, err := Filesystems("/")
	if err != nil || len(all) != len(mountTable()) {
		t.Errorf("%d mounts below /, %v", len(all), err)
	}
	if _, err := Filesystems("/nonexistent"); err != unix.ENOENT {
		t.Error(err)
	}
}
