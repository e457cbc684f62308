package mount

import (
	"path"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Bind is a host tree shown below the root.
type Bind struct {
	Source    string // absolute, on the host
	Dest      string // absolute, in the container
	File      bool   // the source is not a directory
	Recursive bool   // with the mounts below the source
	// Set and Clear are MOUNT_ATTR_* for the mount itself, RecSet and RecClear
	// for everything below it too.
	Set, Clear, RecSet, RecClear uint64
	Propagation                  uint64 // MS_PRIVATE, MS_SLAVE…, or 0

	// Inherited is the slot of a detached mount that the launcher cloned from
	// Source, with its propagation; "" has the child clone it.
	Inherited string
}

// Bind clones the source early, with the caller's access rights, and attaches
// it late. Attributes that the host locked (nosuid, nodev, noexec, read-only)
// stay: mount_setattr(2) changes only what is named, and EPERM tells when that
// is a locked one. An inherited mount has no locked ones.
func (t *Tree) Bind(b Bind) {
	slot, plan := b.Inherited, t.late
	if slot == "" {
		slot, plan = t.cloneSource(b), t.early
	}
	if b.Set|b.Clear != 0 {
		plan(nsexec.MountSetattr(nsexec.Slot(slot), 0,
			nsexec.MountAttr{Set: b.Set, Clear: b.Clear}).Named("attributes of ", b.Dest))
	}
	if b.Propagation != 0 {
		plan(propagation(slot, b))
	}
	if b.RecSet|b.RecClear != 0 {
		plan(nsexec.MountSetattr(nsexec.Slot(slot), unix.AT_RECURSIVE,
			nsexec.MountAttr{Set: b.RecSet, Clear: b.RecClear}).Named("attributes of ", b.Dest, " and below"))
	}
	t.Attach(slot, b.Dest, b.File, false)
}

// cloneSource makes the clone and returns its slot.
func (t *Tree) cloneSource(b Bind) string {
	slot := t.slot("bind")
	flags := uint64(unix.OPEN_TREE_CLONE)
	if b.Recursive {
		flags |= unix.AT_RECURSIVE
	}
	clone := nsexec.OpenTree(nsexec.AtCWD(), b.Source, flags).As(slot).Named("clone the mount at ", b.Source)
	if b.Propagation&unix.MS_SLAVE != 0 {
		t.following(clone.Because("before propagation stops: what the host mounts below it later shall appear here"))
	} else {
		t.early(clone)
	}
	return slot
}

// propagation is a step of its own: mount_setattr(2) has no MS_REC in the
// field, AT_RECURSIVE says it for the whole call.
func propagation(slot string, b Bind) nsexec.Step {
	flags := uint64(0)
	if b.Propagation&unix.MS_REC != 0 {
		flags = unix.AT_RECURSIVE
	}
	return nsexec.MountSetattr(nsexec.Slot(slot), flags, nsexec.MountAttr{Propagation: b.Propagation &^ unix.MS_REC}).
		Named("propagation of ", b.Dest)
}

// Devices that every container gets (runtime-spec, "Default Devices").
var Devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// BindDevices shows the host's device nodes below dest, usually /dev, with the
// usual links beside them. A user namespace can't make a device node
// (mknod(2), EPERM); a node of the host keeps working when it is bound.
func (t *Tree) BindDevices(names []string, dest string) {
	slots := map[string]string{}
	for _, name := range names {
		slot := t.once("dev/" + name)
		slots[name] = slot
		t.early(nsexec.OpenTree(nsexec.AtCWD(), "/dev/"+name, unix.OPEN_TREE_CLONE).As(slot).
			Named("clone /dev/", name).
			Because("the host's node, never one that the root brought along (CVE-2025-31133)"))
	}
	dir := t.Dir(dest)
	for _, name := range names {
		p := place{dir, name}
		t.make(p, true)
		t.late(nsexec.MoveMount(nsexec.Slot(slots[name]), nsexec.Slot(dir), name).Named("attach /dev/", name))
	}
	for _, l := range [][2]string{{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"}} {
		t.late(nsexec.Symlinkat(l[0], nsexec.Slot(dir), l[1]).Named("link /dev/", l[1]).
			Allow("it is there already", unix.EEXIST))
	}
}

// Dir is the slot of a directory below the root.
func (t *Tree) Dir(dest string) string {
	if slot, ok := t.fresh[dest]; ok {
		return slot
	}
	p := t.target(dest, false)
	if p.name == "" {
		return p.dir
	}
	slot := t.slot("target")
	t.late(nsexec.Openat2(nsexec.Slot(p.dir), p.name, unix.O_PATH|unix.O_DIRECTORY, noLinks).As(slot).Named("find ", dest))
	return slot
}

// ReadonlyRoot makes the root's own mount read-only, once all mount points in
// it have been made.
func (t *Tree) ReadonlyRoot() {
	t.late(nsexec.MountSetattr(nsexec.Slot(t.root), 0, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).
		Named("make the root read-only"))
}

// Seal makes a fresh mount read-only after it was filled.
func (t *Tree) Seal(dest string) {
	if slot, ok := t.fresh[dest]; ok {
		t.late(nsexec.MountSetattr(nsexec.Slot(slot), 0, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).
			Named("make ", dest, " read-only"))
	}
}

// Link makes a symbolic link in the root, which must be a fresh tmpfs.
func (t *Tree) Link(target, name string) { t.LinkIn(t.root, target, "/"+name) }

// LinkIn makes the link at, whose folder is the fresh tmpfs in the slot.
func (t *Tree) LinkIn(slot, target, at string) {
	t.late(nsexec.Symlinkat(target, nsexec.Slot(slot), path.Base(at)).Named("link ", at))
}

// Folder makes an empty folder in the root, which must be a fresh tmpfs.
func (t *Tree) Folder(name string, mode uint32) { t.FolderIn(t.root, "/"+name, mode) }

// FolderIn makes the empty folder at, whose parent is the fresh tmpfs in the slot.
func (t *Tree) FolderIn(slot, at string, mode uint32) {
	t.late(nsexec.Mkdirat(nsexec.Slot(slot), path.Base(at), mode).Named("folder ", at))
}
