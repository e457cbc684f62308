package container

import (
	"fmt"
	"path"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/mount"
)

// tree plans everything that the container sees.
func (c *compiler) tree() (*mount.Tree, error) {
	t := mount.NewTree(c.propagation())
	c.mark(t, "the root")
	c.rootSteps(t)
	c.mark(t, "mounts: each made detached and attached by fd")
	covered := c.mountsDev()
	for _, m := range append(slices.Clone(c.spec.Mounts), c.cgroupView()...) {
		if err := c.mountSteps(t, m); err != nil {
			return nil, err
		}
		if path.Clean(m.Destination) == "/dev" && !asksBind(m.Options) { // a folder of the caller's is shown as it is
			t.BindDevices(mount.Devices, "/dev")
		}
	}
	if !covered {
		t.BindDevices(mount.Devices, "/dev")
	}
	c.mark(t, "masked and read-only paths")
	c.maskSteps(t)
	if c.spec.Root != nil && c.spec.Root.Readonly && c.opts.Root.Kind != RootReadOnly {
		t.ReadonlyRoot()
	}
	c.mark(t, "the roots change places")
	t.Pivot()
	return t, nil
}

func (c *compiler) mountsDev() bool {
	return slices.ContainsFunc(c.spec.Mounts, func(m specs.Mount) bool { return path.Clean(m.Destination) == "/dev" })
}

func (c *compiler) propagation() uint64 {
	if c.spec.Linux != nil && strings.TrimPrefix(c.spec.Linux.RootfsPropagation, "r") == "slave" {
		return unix.MS_SLAVE
	}
	return unix.MS_PRIVATE
}

// rootSteps assemble the root itself.
func (c *compiler) rootSteps(t *mount.Tree) {
	if c.idmappedRoot() {
		c.inherit(c.rootTree())
	}
	switch r := c.opts.Root; r.Kind {
	case RootHost:
		c.hostView(t)
	case RootOverlay:
		if c.idmappedRoot() {
			c.idmappedOverlay(t)
			return
		}
		t.OverlayRoot(c.overlay())
	default:
		if c.idmappedRoot() {
			t.InheritRoot("root", r.Kind == RootReadOnly)
			return
		}
		t.BindRoot(r.Path, r.Kind == RootReadOnly)
	}
}

// overlay is the union that --rootfs, --lower and --upper describe.
func (c *compiler) overlay() mount.Overlay {
	r := c.opts.Root
	o := mount.Overlay{Lower: append([]string{r.Path}, r.Lower...), Upper: r.Upper, PerLayer: c.facts.Features.PerLayer}
	switch {
	case r.Upper != "":
		o.Work = WorkDir(r.Upper)
	case !c.facts.Features.TmpfsXattr:
		o.Upper, o.Work, o.Volatile = c.facts.Scratch+"/upper", c.facts.Scratch+"/work", true
		c.note("tmpfs has no user xattrs here (they came with Linux 6.6): the throw-away layer lies in %s and is removed at the end", c.facts.Scratch)
	}
	return o
}

// WorkDir is overlayfs' work folder for an upper layer: beside it, so that both
// are on one file system.
func WorkDir(upper string) string { return strings.TrimSuffix(upper, "/") + ".work" }

// idmappedOverlay: the launcher cloned and idmapped the lowest layer.
func (c *compiler) idmappedOverlay(t *mount.Tree) {
	o := c.overlay()
	o.Inherited = "root"
	o.Lower = o.Lower[1:]
	t.OverlayRoot(o)
}

// hostView is a throw-away view of this machine: what doesn't change is bound
// read-only, /etc and /var are overlays, the rest is new and empty.
func (c *compiler) hostView(t *mount.Tree) {
	t.TmpfsRoot()
	for _, e := range c.facts.TopDirs {
		if e.Target != "" {
			t.Link(e.Target, e.Name)
			continue
		}
		t.Bind(mount.Bind{Source: "/" + e.Name, Dest: "/" + e.Name, Recursive: true, RecSet: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV})
	}
	for _, dir := range []string{"/etc", "/var"} {
		c.hostOverlay(t, dir)
	}
	for _, d := range []struct {
		name string
		mode uint32
	}{{"tmp", 0o1777}, {"run", 0o755}, {"root", 0o700}, {"home", 0o755}, {"mnt", 0o755}} {
		t.Folder(d.name, d.mode)
	}
}

// hostOverlay shows a folder of the host with a throw-away layer on top. Where
// something is mounted below it, the kernel refuses the overlay: in a user
// namespace such a mount is locked, and what it covers must not be seen.
func (c *compiler) hostOverlay(t *mount.Tree, dir string) {
	if below := c.facts.mountsBelow(dir); len(below) > 0 {
		c.hostEntries(t, dir, below)
		return
	}
	o := mount.Overlay{Lower: []string{dir}, PerLayer: c.facts.Features.PerLayer}
	if !c.facts.Features.TmpfsXattr {
		o.Upper, o.Work, o.Volatile = c.facts.Scratch+dir+"/upper", c.facts.Scratch+dir+"/work", true
	}
	t.OverlayAt(o, dir)
}

// maxEntries is how many entries of a folder are bound one by one: each takes
// four steps and an fd until execve.
const maxEntries = 400

// hostEntries shows a folder entry by entry, each bound read-only with what is
// mounted at it or below it, in a new tmpfs: names can be added, as in an
// overlay whose files belong to the host's root.
func (c *compiler) hostEntries(t *mount.Tree, dir string, below []string) {
	entries, because := c.facts.Entries[dir], strings.Join(below, ", ")+" is mounted below it, and the kernel lays no overlay over a locked mount (mount_namespaces(7))"
	readOnly := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV)
	if len(entries) == 0 || len(entries) > maxEntries {
		c.warn("%s is read-only: %s", dir, because)
		t.Bind(mount.Bind{Source: dir, Dest: dir, Recursive: true, RecSet: readOnly})
		return
	}
	c.note("%s is shown entry by entry, each read-only, in a tmpfs: %s", dir, because)
	slot := t.Filesystem("tmpfs", t.Name(dir), []string{"mode=755"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	t.Attach(slot, dir, false, true)
	for _, e := range entries {
		switch at := dir + "/" + e.Name; {
		case e.Target != "":
			t.LinkIn(slot, e.Target, at)
		case at == "/var/tmp":
			t.FolderIn(slot, at, 0o1777)
		default:
			t.Bind(mount.Bind{Source: at, Dest: at, File: e.File, Recursive: true, RecSet: readOnly})
		}
	}
}

// mountSteps plan one entry of the spec's mounts.
func (c *compiler) mountSteps(t *mount.Tree, m specs.Mount) error {
	o, err := ParseMountOptions(m.Options)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", m.Destination, err)
	}
	dest := path.Clean(m.Destination)
	if !path.IsAbs(m.Destination) || dest == "/" {
		return &RequestError{"mount at " + m.Destination, "the destination has to be an absolute path below /", ""}
	}
	if o.Bind {
		b := mount.Bind{Source: m.Source, Dest: dest, File: c.facts.Sources[m.Source] == mount.File, Recursive: o.Recursive,
			Set: o.Set, Clear: o.Clear, RecSet: o.RecSet, RecClear: o.RecClear, Propagation: o.Propagation}
		if asksIDMap(m) {
			if err := c.idmappedBind(&b, m, o); err != nil {
				return err
			}
		}
		t.Bind(b)
		return nil
	}
	return c.filesystem(t, m, dest, o)
}

// filesystem plans a mount of a file system of its own.
func (c *compiler) filesystem(t *mount.Tree, m specs.Mount, dest string, o MountOptions) error {
	attrs := o.Set | o.RecSet
	if o.Propagation&^(unix.MS_REC|unix.MS_PRIVATE) != 0 {
		return &RequestError{"mount at " + dest, "propagation is built for bind mounts only; a new file system is private", "leave slave, shared or unbindable out of its options"}
	}
	switch m.Type {
	case "proc":
		if !c.has(unix.CLONE_NEWPID) {
			c.hostTree(t, "/proc", dest, 0, "the pid namespace is the host's, so its proc is shown")
			return nil
		}
	case "sysfs":
		if !c.has(unix.CLONE_NEWNET) {
			c.hostTree(t, "/sys", dest, unix.MOUNT_ATTR_RDONLY, "the network namespace is the host's, and a new sysfs needs one of its own")
			return nil
		}
	case "mqueue":
		if !c.has(unix.CLONE_NEWIPC) {
			return &RequestError{"mount at " + dest, "mqueue belongs to the ipc namespace, which is the host's here (EPERM)",
				"drop this mount, or give the container an ipc namespace"}
		}
	case "devpts":
		o.Data = c.mappedOptions(dest, o.Data)
	case "cgroup":
		return c.cgroupMount(t, dest, attrs)
	case "tmpfs":
		o.Data = c.mappedOptions(dest, o.Data)
	}
	slot := t.Name(dest)
	// Read-only comes last: devices and mount points are still to be made in it.
	late := uint64(0)
	if m.Type == "tmpfs" {
		late = attrs & unix.MOUNT_ATTR_RDONLY
	}
	t.Filesystem(m.Type, slot, o.Data, attrs&^late)
	t.Attach(slot, dest, false, true)
	if late != 0 {
		c.sealed = append(c.sealed, dest)
	}
	return nil
}

// hostTree binds a tree of the host in place of a file system that can't be made.
func (c *compiler) hostTree(t *mount.Tree, source, dest string, attrs uint64, why string) {
	c.note("%s is the host's %s, bound: %s", dest, source, why)
	t.Bind(mount.Bind{Source: source, Dest: dest, Recursive: true,
		RecSet: attrs | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC})
}

// mappedOptions drops uid= and gid= of ids that don't exist inside: the kernel
// would refuse the mount with EINVAL (lxc/lxc#2272).
func (c *compiler) mappedOptions(dest string, options []string) []string {
	var out []string
	for _, o := range options {
		var id uint32
		key, value, _ := strings.Cut(o, "=")
		if n, _ := fmt.Sscan(value, &id); n == 1 && (key == "gid" || key == "uid") {
			m := c.maps.GID
			if key == "uid" {
				m = c.maps.UID
			}
			if _, ok := m.ToOutside(id); !ok {
				c.note("%s: the option %s was left out, as the container's map has no such id", dest, o)
				continue
			}
		}
		out = append(out, o)
	}
	return out
}

// cgroupMount: a view of the cgroup tree. Without a cgroup namespace of its own
// it shows the host's, so it is read-only.
func (c *compiler) cgroupMount(t *mount.Tree, dest string, attrs uint64) error {
	switch {
	case c.has(unix.CLONE_NEWCGROUP) && c.facts.Cgroups == cgroup.Unified:
		slot := t.Name(dest)
		if c.opts.Cgroups.Writable {
			attrs &^= unix.MOUNT_ATTR_RDONLY
		} else {
			attrs |= unix.MOUNT_ATTR_RDONLY
		}
		t.Filesystem("cgroup2", slot, nil, attrs)
		t.Attach(slot, dest, false, true)
	case c.facts.Cgroups != cgroup.NoTree:
		c.hostTree(t, cgroup.Root, dest, unix.MOUNT_ATTR_RDONLY, "read-only, as it shows the host's groups")
	default:
		slot := t.Name(dest)
		t.Filesystem("tmpfs", slot, []string{"mode=755"}, attrs|unix.MOUNT_ATTR_RDONLY)
		t.Attach(slot, dest, false, true)
		c.note("%s is an empty read-only tmpfs: there is no cgroup tree at /sys/fs/cgroup here", dest)
	}
	return nil
}

// maskSteps hide and protect what the spec says, /proc first of all.
func (c *compiler) maskSteps(t *mount.Tree) {
	for _, dest := range c.sealed {
		t.Seal(dest)
	}
	if c.spec.Linux == nil {
		return
	}
	for _, p := range c.spec.Linux.MaskedPaths {
		if !c.maskedAbove(p) {
			t.Mask(path.Clean(p), c.facts.Paths[p])
		}
	}
	for _, p := range c.spec.Linux.ReadonlyPaths {
		t.ReadonlyPath(path.Clean(p), c.facts.Paths[p])
	}
}

// maskedAbove: what lies below another masked path is hidden with it.
func (c *compiler) maskedAbove(p string) bool {
	for dir := path.Dir(path.Clean(p)); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if slices.Contains(c.spec.Linux.MaskedPaths, dir) {
			return true
		}
	}
	return false
}
