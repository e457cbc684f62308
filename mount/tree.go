package mount

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// A Tree plans the mounts of one container. Early holds the steps that need no
// id map, Late those that do.
type Tree struct {
	Early, Late nsexec.Program

	root      string            // the slot of the new root, once it is attached
	fresh     map[string]string // destination → slot of a mount that we made and nobody else has written to
	stacked   int               // mounts of ours over the old "/", below the new root
	count     int
	followers int             // steps of Early before propagation stops
	names     map[string]bool // slots that Name gave out
}

// NewTree plans for a child whose mount namespace has just been made.
// propagation is MS_PRIVATE or MS_SLAVE: do later mounts of the host appear inside?
func NewTree(propagation uint64) *Tree {
	t := &Tree{fresh: map[string]string{}, names: map[string]bool{},
		Early: make(nsexec.Program, 0, 32), Late: make(nsexec.Program, 0, 192)}
	t.early(nsexec.Mount("", "/", "", propagation|unix.MS_REC, "").
		Named("stop propagation").
		Because("nothing mounted from here on may appear on the host"))
	return t
}

// following puts a clone that is to follow the host's later mounts before the
// step that makes everything private: a clone of a slave is a slave.
func (t *Tree) following(clone nsexec.Step) {
	if t.followers == 0 {
		t.Early = slices.Insert(t.Early, 0, nsexec.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "").
			Named("follow the host").Because("mounts of the host reach us, ours don't reach the host"))
		t.followers++
	}
	t.Early = slices.Insert(t.Early, t.followers, clone)
	t.followers++
}

func (t *Tree) early(s ...nsexec.Step) { t.Early = append(t.Early, s...) }
func (t *Tree) late(s ...nsexec.Step)  { t.Late = append(t.Late, s...) }

// slot invents a name for a result: "mount3", "target7".
func (t *Tree) slot(kind string) string {
	t.count++
	return kind + strconv.Itoa(t.count)
}

// Name is a slot name for a mount at dest: its last word for a usual mount, else
// one made up, so that whatever dest is called, no other slot is called so.
func (t *Tree) Name(dest string) string {
	base := path.Base(dest)
	if !slices.Contains(usualMounts, base) {
		return t.slot("mount")
	}
	return t.once(base)
}

// usualMounts are known by their own names.
var usualMounts = []string{"proc", "sys", "dev", "pts", "shm", "mqueue", "cgroup"}

// once is the name itself the first time, and then numbered.
func (t *Tree) once(name string) string {
	if t.names[name] {
		return t.slot(name)
	}
	t.names[name] = true
	return name
}

// Filesystem makes a detached mount of a file system type and returns its slot.
// Options are "key=value" or "key"; attrs are MOUNT_ATTR_*.
func (t *Tree) Filesystem(fstype, slot string, options []string, attrs uint64) string {
	fs := slot + ".fs"
	t.late(
		nsexec.Fsopen(fstype).As(fs).Named("open a new ", fstype),
		nsexec.FsconfigString(nsexec.Slot(fs), "source", fstype).Named(fstype, " source").
			Because("the name that mount(8) and df(1) will show"),
	)
	for _, o := range options {
		key, value, has := strings.Cut(o, "=")
		s := nsexec.FsconfigFlag(nsexec.Slot(fs), key)
		if has {
			s = nsexec.FsconfigString(nsexec.Slot(fs), key, value)
		}
		t.late(s.Named(fstype, " option ", o))
	}
	t.late(
		nsexec.FsconfigCreate(nsexec.Slot(fs)).Named("create the ", fstype),
		nsexec.Fsmount(nsexec.Slot(fs), attrs).As(slot).Named("mount ", fstype).
			Because("a detached mount, to be attached by its fd"),
	)
	return slot
}

// inRoot is how every path below the root is resolved.
const inRoot = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// place is a destination as a directory slot and one name in it; name is empty
// when the slot is the target itself.
type place struct{ dir, name string }

// target resolves a destination below the root, making what is missing: a
// directory, or an empty file as the mount point of a file. Below a mount that
// we just made a plain name suffices: nobody else can have put a link there.
func (t *Tree) target(dest string, file bool) place {
	if p, ok := t.inFresh(dest); ok {
		t.make(p, file)
		return p
	}
	dir := t.root
	parts := strings.Split(strings.Trim(dest, "/"), "/")
	for i, name := range parts {
		t.make(place{dir, name}, file && i == len(parts)-1)
		flags := uint64(unix.O_PATH)
		if !file || i < len(parts)-1 {
			flags |= unix.O_DIRECTORY
		}
		slot := t.slot("target")
		t.late(nsexec.Openat2(nsexec.Slot(t.root), strings.Join(parts[:i+1], "/"), flags, inRoot).As(slot).
			Named("find /", strings.Join(parts[:i+1], "/")).
			Because("links in the root resolve inside it, wherever they point"))
		dir = slot
	}
	return place{dir: dir}
}

func (t *Tree) inFresh(dest string) (place, bool) {
	parent, name := path.Split(dest)
	slot, ok := t.fresh[path.Clean(parent)]
	return place{slot, name}, ok && name != ""
}

// make creates a mount point where there is none.
func (t *Tree) make(p place, file bool) {
	s := nsexec.Mkdirat(nsexec.Slot(p.dir), p.name, 0o755)
	if file {
		s = nsexec.Mknodat(nsexec.Slot(p.dir), p.name, 0o644)
	}
	t.late(s.Named("mount point ", p.name).Allow("it is there already", unix.EEXIST))
}

// Attach puts a detached mount at a destination below the root. A fresh mount
// is one whose content only this program has written.
func (t *Tree) Attach(slot, dest string, file, fresh bool) {
	p := t.target(dest, file)
	t.forget(dest)
	t.late(nsexec.MoveMount(nsexec.Slot(slot), nsexec.Slot(p.dir), p.name).
		Named("attach ", dest).
		Because("by fd: the target can't be exchanged in between"))
	if fresh {
		t.fresh[dest] = slot
	}
}

// forget drops what a mount at dest covers.
func (t *Tree) forget(dest string) {
	for d := range t.fresh {
		if d == dest || strings.HasPrefix(d, strings.TrimSuffix(dest, "/")+"/") {
			delete(t.fresh, d)
		}
	}
}

// Pivot makes the new root the only one.
func (t *Tree) Pivot() {
	t.late(
		nsexec.Fchdir(nsexec.Slot(t.root)).Named("enter the new root"),
		nsexec.PivotRoot(".", ".").Named("make it the root").
			Because("unlike chroot(2) it leaves no way back: the old root ends up on top of the new one"),
	)
	for range t.stacked {
		t.late(nsexec.Umount2(".", unix.MNT_DETACH).Named("detach what lies over the old root"))
	}
	t.late(
		nsexec.Umount2(".", unix.MNT_DETACH).Named("detach the old root").
			Because("nothing of the host's tree stays reachable"),
		nsexec.Fchdir(nsexec.Slot(t.root)).Named("stand in the new root"),
		nsexec.Openat2(nsexec.AtCWD(), "/..", unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_XDEV).
			Named("prove that the old root is gone").
			Because("were anything left on top of the root, /.. would cross into it (EXDEV)"),
	)
}

// overRoot attaches a detached mount over "/", before the new root is.
func (t *Tree) overRoot(slot string) nsexec.Step {
	t.stacked++
	return nsexec.MoveMount(nsexec.Slot(slot), nsexec.AtCWD(), "/")
}
