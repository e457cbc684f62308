package mount

import (
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// FileType is what stands at a path that is to be masked or made read-only.
type FileType string

const (
	Absent    FileType = "absent"
	Directory FileType = "dir"
	File      FileType = "file"
)

// noLinks is how masks are resolved: inside the mount that they belong to, by
// no link of any kind.
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// find resolves a path that must not be a link: below the mount that covers it,
// when that one is ours (then /proc can be nothing but procfs), else below the root.
func (t *Tree) find(dest string) string {
	base, rel := t.root, strings.TrimPrefix(dest, "/")
	best := 0
	for d, slot := range t.fresh {
		if strings.HasPrefix(dest, d+"/") && len(d) > best {
			base, rel, best = slot, dest[len(d)+1:], len(d)
		}
	}
	slot := t.slot("target")
	t.late(nsexec.Openat2(nsexec.Slot(base), rel, unix.O_PATH, noLinks).As(slot).Named("find ", dest).
		Because("no link may lead the mask elsewhere"))
	return slot
}

// Mask hides a path. Its type has to be known beforehand: a mount onto the
// wrong type fails, and a mount that fails costs a grace period of RCU. A path
// that planning found absent is proven absent.
func (t *Tree) Mask(dest string, is FileType) {
	if is == Absent {
		t.proveAbsent(dest)
		return
	}
	target := t.find(dest)
	t.late(nsexec.MoveMount(nsexec.Slot(t.cover(is)), nsexec.Slot(target), "").Named("mask ", dest))
}

// cover makes a detached mount to put over a path: of the host's null device,
// or of the one empty tmpfs that all masked directories share.
func (t *Tree) cover(is FileType) string {
	slot := t.slot("mask")
	if is == File {
		t.late(nsexec.OpenTree(nsexec.AtCWD(), "/dev/null", unix.OPEN_TREE_CLONE).As(slot).Named("clone /dev/null").
			Because("the host's null device: the root's own is not reachable from here (CVE-2025-31133)"))
		return slot
	}
	if _, made := t.fresh["empty"]; made {
		t.late(nsexec.OpenTree(nsexec.Slot("empty"), "", unix.OPEN_TREE_CLONE|unix.AT_EMPTY_PATH).As(slot).
			Named("clone the empty tmpfs"))
		return slot
	}
	// Only an attached mount can be cloned: the first use attaches the tmpfs itself.
	t.Filesystem("tmpfs", "empty", []string{"mode=755", "nr_inodes=1"}, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|
		unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	t.fresh["empty"] = "empty"
	return "empty"
}

func (t *Tree) proveAbsent(dest string) {
	t.find(dest)
	last := len(t.Late) - 1
	t.Late[last] = t.Late[last].Named(dest, " is absent").MustFail(unix.ENOENT).
		Because("it was absent when this was planned; had it come since, it would stay unmasked")
}

// ReadonlyPath makes a path read-only by a bind mount onto itself.
func (t *Tree) ReadonlyPath(dest string, is FileType) {
	if is == Absent {
		t.proveAbsent(dest)
		return
	}
	target, slot := t.find(dest), t.slot("readonly")
	t.late(
		nsexec.OpenTree(nsexec.Slot(target), "", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).As(slot).
			Named("clone the mount at ", dest),
		nsexec.MountSetattr(nsexec.Slot(slot), unix.AT_RECURSIVE, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).
			Named("make it read-only"),
		nsexec.MoveMount(nsexec.Slot(slot), nsexec.Slot(target), "").Named("attach read-only ", dest),
	)
}
