package mount

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Filesystem is one line of mountinfo, as far as id maps need it.
type Filesystem struct {
	At   string `json:"at"`   // where it is mounted
	Type string `json:"type"` // "ext4", "fuse.sshfs"
}

// Filesystems are the one that a path lies on and then those that are mounted below the path. They come from the
// mount table and not from the file systems, whose servers may be dead: statfs(2) would wait for them. A path is
// followed as open(2) follows it. Linux 5.2 (open_tree(2)); the error is an errno.
func Filesystems(path string) ([]Filesystem, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	m, _ := mountOf(fd)
	list := []Filesystem{{m.at, fsTypeOf(fd)}}
	top, err := os.Readlink(fmt.Sprint("/proc/thread-self/fd/", fd))
	if err != nil {
		return list, nil
	}
	for _, m := range mountTable() {
		if m.at != top && strings.HasPrefix(m.at, strings.TrimSuffix(top, "/")+"/") {
			list = append(list, Filesystem{m.at, m.fstype})
		}
	}
	return list, nil
}

// fsTypeOf is the type of an open file's; "" if it can't be told.
func fsTypeOf(fd int) string {
	if m, ok := mountOf(fd); ok {
		return m.fstype
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return ""
	}
	return magicName(int64(st.Type))
}

// mountEntry is one line of mountinfo (proc_pid_mountinfo(5)).
type mountEntry struct{ id, at, fstype string }

// mountOf is the mount that an fd lies on; false if it isn't attached in our mount namespace: it is detached, or
// another namespace's.
func mountOf(fd int) (mountEntry, bool) {
	id := mountID(fd)
	for _, m := range mountTable() {
		if m.id == id {
			return m, true
		}
	}
	return mountEntry{}, false
}

// mountID is the fd's mount (proc_pid_fdinfo(5)); "" if it can't be told.
func mountID(fd int) string {
	text, err := os.ReadFile(fmt.Sprint("/proc/thread-self/fdinfo/", fd))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// mountTable is that of our thread's mount namespace; nil if it can't be read.
func mountTable() (table []mountEntry) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if ok && len(l) > 4 && len(r) > 0 {
			table = append(table, mountEntry{l[0], unescape(l[4]), r[0]})
		}
	}
	return table
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// magicName is the type of a statfs(2) magic number, for a mount that mountinfo doesn't list.
func magicName(magic int64) string {
	for _, m := range []struct {
		magic int64
		name  string
	}{
		{unix.PROC_SUPER_MAGIC, "proc"}, {unix.SYSFS_MAGIC, "sysfs"}, {unix.TMPFS_MAGIC, "tmpfs"}, {unix.OVERLAYFS_SUPER_MAGIC, "overlay"},
		{unix.EXT4_SUPER_MAGIC, "ext4"}, {unix.XFS_SUPER_MAGIC, "xfs"}, {unix.BTRFS_SUPER_MAGIC, "btrfs"}, {unix.F2FS_SUPER_MAGIC, "f2fs"},
		{unix.EROFS_SUPER_MAGIC_V1, "erofs"}, {unix.SQUASHFS_MAGIC, "squashfs"}, {unix.FUSE_SUPER_MAGIC, "fuse"}, {unix.NFS_SUPER_MAGIC, "nfs"},
		{unix.CGROUP_SUPER_MAGIC, "cgroup"}, {unix.CGROUP2_SUPER_MAGIC, "cgroup2"}, {unix.DEVPTS_SUPER_MAGIC, "devpts"},
		{unix.CEPH_SUPER_MAGIC, "ceph"}, {unix.SMB2_SUPER_MAGIC, "cifs"}, {unix.V9FS_MAGIC, "9p"}, {unix.NSFS_MAGIC, "nsfs"},
	} {
		if m.magic == magic {
			return m.name
		}
	}
	return fmt.Sprintf("type %#x", magic)
}
