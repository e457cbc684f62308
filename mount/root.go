package mount

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Overlay is a union of layers (overlayfs; Linux 5.11 in a user namespace).
type Overlay struct {
	Lower     []string // paths on the host, the topmost first
	Upper     string   // path on the host; empty means a throw-away tmpfs
	Work      string   // beside Upper, on the same file system
	Volatile  bool     // Upper is thrown away: no fsync (5.10)
	Inherited string   // slot of a detached mount of the launcher's, the topmost layer before Lower
	// PerLayer: fsconfig(2) takes each layer by itself ("lowerdir+", Linux 6.7),
	// so that no character of a path is a delimiter. Before, one option string
	// is given to mount(2), with escapes.
	PerLayer bool
}

// BindRoot makes the tree at a host path the root. readonly applies to everything
// below it too.
func (t *Tree) BindRoot(source string, readonly bool) {
	t.early(nsexec.OpenTree(nsexec.AtCWD(), source, unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE).As("root").
		Named("clone the mount at ", source).
		Because("the new root has to be a mount of its own"))
	if readonly {
		t.early(nsexec.MountSetattr(nsexec.Slot("root"), unix.AT_RECURSIVE, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).
			Named("make it read-only"))
	}
	t.attachRoot("root")
}

// InheritRoot makes a detached mount that the launcher cloned (a slot of the
// host lane) the root.
func (t *Tree) InheritRoot(slot string, readonly bool) {
	if readonly {
		t.late(nsexec.MountSetattr(nsexec.Slot(slot), unix.AT_RECURSIVE, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).
			Named("make the root read-only"))
	}
	t.attachRoot(slot)
}

// TmpfsRoot makes an empty tmpfs the root.
func (t *Tree) TmpfsRoot() {
	t.Filesystem("tmpfs", "root", []string{"mode=755"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	t.attachRoot("root")
	t.fresh["/"] = "root"
}

func (t *Tree) attachRoot(slot string) {
	t.root = slot
	t.late(nsexec.MoveMount(nsexec.Slot(slot), nsexec.AtCWD(), "/").
		Named("attach the new root").
		Because("over the old one, which stays reachable by fds and by the child's own root until pivot_root"))
}

// OverlayRoot makes a union of host folders the root. Layers are opened early,
// while the child still has exactly the caller's access to them.
func (t *Tree) OverlayRoot(o Overlay) {
	slot := "root"
	if o.Inherited == slot {
		slot = "union"
	}
	t.overlay(o, slot)
	t.attachRoot(slot)
}

// OverlayAt puts a union at a destination below the root.
func (t *Tree) OverlayAt(o Overlay, dest string) {
	slot := t.slot("overlay")
	t.overlay(o, slot)
	t.Attach(slot, dest, false, false)
}

// layers opens each layer's folder and returns the slots.
func (t *Tree) layers(paths []string) []string {
	slots := make([]string, len(paths))
	for i, p := range paths {
		slots[i] = t.slot("layer")
		t.early(nsexec.Openat(nsexec.AtCWD(), p, unix.O_PATH|unix.O_DIRECTORY, 0).As(slots[i]).
			Named("open the layer ", p))
	}
	return slots
}

// upper prepares the writable layer: slot of its parent folder, and the two names in it.
func (t *Tree) upper(o Overlay, layer string) (dir, upper, work string) {
	if o.Upper != "" {
		return "", o.Upper, o.Work
	}
	dir = t.scratch(layer)
	upper, work = t.slot("upper"), t.slot("work")
	for _, name := range []string{upper, work} {
		t.late(nsexec.Mkdirat(nsexec.Slot(dir), name, 0o755).Named("folder for ", name))
	}
	return dir, upper, work
}

// scratch is the container's throw-away tmpfs, made once. It is attached, since
// overlayfs takes no layers from a detached mount: over the folder that is the
// layer, whose fd still shows what is below, or over "/".
func (t *Tree) scratch(layer string) string {
	if _, made := t.fresh["scratch"]; made {
		return "scratch"
	}
	t.fresh["scratch"] = "scratch"
	t.Filesystem("tmpfs", "scratch", []string{"mode=700"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	attach := nsexec.MoveMount(nsexec.Slot("scratch"), nsexec.Slot(layer), "")
	if layer == "" {
		attach = t.overRoot("scratch")
	}
	t.late(attach.Named("attach the throw-away tmpfs").
		Because("overlayfs takes layers only from attached mounts; this place is out of sight after pivot_root"))
	return "scratch"
}

// overlay makes a detached overlay mount in the slot.
func (t *Tree) overlay(o Overlay, slot string) {
	if !o.PerLayer {
		t.overlayByMount(o, slot)
		return
	}
	layers := t.layers(o.Lower)
	var kept []string // the folders of an upper layer on the host
	if o.Upper != "" {
		kept = t.layers([]string{o.Upper, o.Work})
	}
	if o.Inherited != "" {
		t.late(t.overRoot(o.Inherited).Named("attach the inherited layer").
			Because("overlayfs takes layers only from attached mounts"))
		layers = append([]string{o.Inherited}, layers...)
	}
	dir, upper, work := t.upper(o, layers[0])
	if o.Inherited != "" && dir != "" {
		t.stacked++ // the scratch tmpfs lies over the inherited layer
	}
	fs := slot + ".fs"
	t.late(nsexec.Fsopen("overlay").As(fs).Named("open a new overlay"))
	set := func(key, value string) {
		t.late(nsexec.FsconfigString(nsexec.Slot(fs), key, value).Named("overlay ", key))
	}
	for i, l := range layers {
		t.late(nsexec.Fchdir(nsexec.Slot(l)).Named("stand in layer ", strconv.Itoa(i+1)).
			Because("the layer is then named \".\", whatever characters its path has"))
		set("lowerdir+", ".")
	}
	set("source", "overlay")
	if kept != nil {
		t.late(nsexec.Fchdir(nsexec.Slot(kept[0])).Named("stand in the upper layer"))
		set("upperdir", ".")
		t.late(nsexec.Fchdir(nsexec.Slot(kept[1])).Named("stand in its work folder"))
		set("workdir", ".")
	} else {
		t.late(nsexec.Fchdir(nsexec.Slot(dir)).Named("stand in the throw-away tmpfs"))
		set("upperdir", upper)
		set("workdir", work)
	}
	t.late(nsexec.FsconfigFlag(nsexec.Slot(fs), "userxattr").Named("overlay userxattr").
		Because("trusted.* attributes need privilege over the host; user.* don't"))
	if dir != "" || o.Volatile {
		t.late(nsexec.FsconfigFlag(nsexec.Slot(fs), "volatile").Named("overlay volatile").
			Because("a layer that is thrown away needs no fsync"))
	}
	t.late(
		nsexec.FsconfigCreate(nsexec.Slot(fs)).Named("create the overlay"),
		nsexec.Fsmount(nsexec.Slot(fs), 0).As(slot).Named("mount the overlay"),
	)
}

// overlayByMount is overlay for kernels before 6.7: one option string, one
// mount(2), onto a folder of the scratch tmpfs. The inherited layer has no path,
// so it gets one there.
func (t *Tree) overlayByMount(o Overlay, slot string) {
	scratch, merged := t.scratch(""), t.slot("merged")
	if o.Inherited != "" {
		lower := t.slot("lower")
		t.late(
			nsexec.Mkdirat(nsexec.Slot(scratch), lower, 0o755).Named("mount point of the inherited layer"),
			nsexec.MoveMount(nsexec.Slot(o.Inherited), nsexec.Slot(scratch), lower).Named("attach the inherited layer").
				Because("mount(2) takes layers by their paths"))
		o.Lower = append([]string{lower}, o.Lower...)
	}
	dir, upper, work := t.upper(o, "")
	options := o.Options(upper, work)
	if dir != "" || o.Volatile {
		options += ",volatile"
	}
	t.late(
		nsexec.Mkdirat(nsexec.Slot(scratch), merged, 0o755).Named("mount point of the overlay"),
		nsexec.Fchdir(nsexec.Slot(scratch)).Named("stand in the throw-away tmpfs"),
		nsexec.Mount("overlay", merged, "overlay", 0, options).Named("mount the overlay"),
		nsexec.OpenTree(nsexec.AtCWD(), merged, 0).As(slot).Named("hold the overlay by an fd"),
	)
}

// MaxOptions is the length at which mount(2) cuts an option string: a page,
// with its NUL.
const MaxOptions = 4095

// Options is the option string for mount(2). overlayfs reads ':' between lower
// layers, and a backslash before ':', ',' and itself in a path.
func (o Overlay) Options(upper, work string) string {
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	lower := make([]string, len(o.Lower))
	for i, p := range o.Lower {
		lower[i] = escape.Replace(p)
	}
	return "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + escape.Replace(upper) +
		",workdir=" + escape.Replace(work) + ",userxattr"
}
