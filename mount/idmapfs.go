package mount

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Which file systems can be idmapped (mount_setattr(2), "ID-mapped mounts", and the places in Linux 6.18 that set
// FS_ALLOW_IDMAP). The kernel answers EINVAL for all others and doesn't say why.

// mappable is a file system type that can be idmapped, from a version on.
type mappable struct{ fstype, since, unless string }

func mappables() []mappable {
	const server = ", if its server asks for it (FUSE_ALLOW_IDMAP) and it is mounted with default_permissions"
	return []mappable{
		{"ext4", "5.12", ""}, {"xfs", "5.12", ""}, {"vfat", "5.12", ""}, {"msdos", "5.12", ""}, {"btrfs", "5.15", ""},
		{"ntfs3", "5.15", ""}, {"f2fs", "5.18", ""}, {"erofs", "5.19", ""}, {"squashfs", "6.2", ""}, {"tmpfs", "6.3", ""},
		{"ceph", "6.7", ""}, {"hugetlbfs", "6.9", ""}, {"fuse", "6.12", server}, {"fuseblk", "6.12", server}, {"virtiofs", "6.12", server},
	}
}

// kernelMade are trees that the kernel makes up: nobody's owners are kept in them.
func kernelMade() []string {
	return []string{"proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs", "securityfs",
		"bpf", "configfs", "pstore", "efivarfs", "nsfs", "binfmt_misc", "selinuxfs", "resctrl"}
}

// NeverIDMapped tells of a file system type that no kernel idmaps, and why: what the kernel makes up itself, and
// overlay. "" for any other type, also an unknown one: its answer is the kernel's.
func NeverIDMapped(fstype string) string {
	for _, name := range kernelMade() {
		if name == fstype {
			return fstype + " is made up by the kernel and keeps no owners of files: no kernel idmaps it"
		}
	}
	if fstype == "overlay" {
		return "overlay itself can't be idmapped, only the layers that it is made of (Linux 5.19)"
	}
	return ""
}

// WhyNotIDMapped is cause and remedy for a mount that the kernel didn't idmap, by mount_setattr(2)'s errno; "" for an
// errno that isn't about that. tree is what was to be mapped: the file system at the top, and those mounted below it.
func WhyNotIDMapped(tree []Filesystem, errno unix.Errno) (cause, remedy string) {
	top := tree[0].Type
	switch errno {
	case unix.EINVAL:
		if below, ok := unmappable(tree[1:]); ok && allowed(top) {
			return below.At + " is mounted below it: " + whyInvalid(below.Type),
				"bind another folder; in a bundle, idmap the top alone (bind and idmap, not rbind and ridmap); or bind it plainly, without idmap"
		}
		return whyInvalid(top), "bind it plainly, without idmap; or copy it to ext4, xfs, btrfs (Linux 5.15) or tmpfs (6.3); or chown it to the ids that it shall have"
	case unix.EPERM:
		return "an id map needs CAP_SYS_ADMIN over the user namespace that owns the file system (" + nameOf(top) +
				"): an ordinary user has that only over what he mounted himself in a user namespace of his own, such as a tmpfs (Linux 6.3). Or the mount is idmapped already",
			"bind it plainly, without idmap; or give the files to the container's ids once: wolffia run -v DIR:/mnt -- chown -R UID:GID /mnt"
	case unix.ENOSYS:
		return "mount_setattr(2) came with Linux 5.12, or a seccomp filter refuses it", "bind it plainly, without idmap"
	}
	return "", ""
}

// unmappable is the first whose type isn't known to allow an id map.
func unmappable(list []Filesystem) (Filesystem, bool) {
	for _, f := range list {
		if !allowed(f.Type) {
			return f, true
		}
	}
	return Filesystem{}, false
}

func whyInvalid(fstype string) string {
	if why := NeverIDMapped(fstype); why != "" {
		return why
	}
	for _, m := range mappables() {
		if m.fstype == base(fstype) {
			return nameOf(fstype) + " can be idmapped since Linux " + m.since + m.unless
		}
	}
	return nameOf(fstype) + " doesn't allow idmapped mounts on this kernel (mount_setattr(2) lists those that do)"
}

// allowed: some kernel idmaps this type.
func allowed(fstype string) bool {
	for _, m := range mappables() {
		if m.fstype == base(fstype) {
			return true
		}
	}
	return false
}

// base is a type without its subtype: "fuse" of "fuse.sshfs".
func base(fstype string) string {
	name, _, _ := strings.Cut(fstype, ".")
	return name
}

func nameOf(fstype string) string {
	if fstype == "" {
		return "this file system"
	}
	return fstype
}
