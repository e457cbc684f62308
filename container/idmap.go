package container

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// asksIDMap: the option idmap or ridmap, or a map of the mount's own
// (runtime-spec, config.md, "Mounts").
func asksIDMap(m specs.Mount) bool {
	for _, opt := range m.Options {
		if opt == "idmap" || opt == "ridmap" {
			return true
		}
	}
	return len(m.UIDMappings)+len(m.GIDMappings) > 0
}

// mapNamespace is a user namespace that exists for its maps alone.
type mapNamespace struct{ slot, uid, gid string }

// idmappedBind has the launcher clone and idmap what b shows: with the maps of
// the mount itself, else with the container's. What can be known not to work is
// refused here, before anything is made.
func (c *compiler) idmappedBind(b *mount.Bind, m specs.Mount, o MountOptions) error {
	tree := hostTree{what: b.Dest, source: b.Source, propagation: unix.MS_PRIVATE}
	if o.Recursive {
		tree.flags = unix.AT_RECURSIVE
	}
	if o.RecIDMap {
		tree.mapFlags = unix.AT_RECURSIVE
	}
	if err := c.checkIDMap(b.Source, tree.mapFlags != 0); err != nil {
		return fmt.Errorf("mount at %s: %w", b.Dest, err)
	}
	var err error
	if tree.userns, err = c.ownMap(m); err != nil {
		return fmt.Errorf("mount at %s: %w", b.Dest, err)
	}
	switch b.Propagation &^ unix.MS_REC {
	case unix.MS_SLAVE:
		tree.propagation, b.Propagation = unix.MS_SLAVE, 0
	case unix.MS_PRIVATE:
		b.Propagation = 0
	}
	n := strconv.Itoa(len(c.trees) + 1)
	tree.slot, tree.kept, b.Inherited = "tree"+n, "idmap"+n, "idmap"+n
	c.inherit(tree)
	return nil
}

// checkIDMap refuses what the kernel is known to refuse. Errors are
// *mount.IDMapError.
func (c *compiler) checkIDMap(source string, recursive bool) error {
	found := c.facts.Idmap[source]
	if len(found) == 0 { // facts of another machine, saved for another request
		found = []mount.Filesystem{{}}
	}
	if !recursive {
		found = found[:1]
	}
	errno := unix.Errno(0)
	for _, f := range found {
		if mount.NeverIDMapped(f.Type) != "" {
			errno = unix.EINVAL
		}
	}
	if errno == 0 && !c.facts.IDs.SysAdmin {
		errno = unix.EPERM
	}
	if errno == 0 {
		return nil
	}
	e := &mount.IDMapError{Path: source, FSType: found[0].Type, Call: "mount_setattr(MOUNT_ATTR_IDMAP) would fail", Errno: errno}
	e.Cause, e.Remedy = mount.WhyNotIDMapped(found, errno)
	return e
}

// warnUnlocked: a mount that the launcher hands over carries the flags of the
// host's mount, but the kernel locks flags only of mounts that a new mount
// namespace copies (mount_namespaces(7), "Restrictions on mount
// namespaces"). Only CAP_SYS_ADMIN can change them.
func (c *compiler) warnUnlocked() {
	caps := c.spec.Process.Capabilities
	if len(c.trees) == 0 || caps == nil || !slices.Contains(slices.Concat(caps.Bounding, caps.Permitted, caps.Effective), "CAP_SYS_ADMIN") {
		return
	}
	var list []string
	for _, t := range c.trees {
		list = append(list, t.what)
	}
	c.warn("with CAP_SYS_ADMIN the program can take ro, nosuid, nodev and noexec away from idmapped mounts, also where the host set them: %s", strings.Join(list, ", "))
}

// ownMap is the slot of the namespace with a mount's own map; "" if it has none.
// Mounts with the same map share one. Errors are *userns.PlanError.
func (c *compiler) ownMap(m specs.Mount) (string, error) {
	if len(m.UIDMappings) == 0 {
		return "", nil
	}
	maps, err := userns.PlanMaps(userns.Request{Mode: userns.Spec, UID: idMap(m.UIDMappings), GID: idMap(m.GIDMappings)}, c.facts.IDs)
	if err != nil {
		return "", err
	}
	n := mapNamespace{"userns" + strconv.Itoa(len(c.mountNS)+1), maps.UID.String(), maps.GID.String()}
	for _, have := range c.mountNS {
		if have.uid == n.uid && have.gid == n.gid {
			return have.slot, nil
		}
	}
	c.mountNS = append(c.mountNS, n)
	return n.slot, nil
}

// idmapSource is the file systems that a failed OpIDMap was for, by its slot.
func (h *hinted) idmapSource() (path string, found []mount.Filesystem) {
	step := h.plan.Host[h.step.Index]
	for _, other := range h.plan.Host {
		if other.Op == nsexec.OpOpenTree && other.Save == step.Save {
			path = other.Path
		}
	}
	found = h.plan.Facts.Idmap[path]
	if len(found) == 0 {
		found = []mount.Filesystem{{}}
	}
	if step.Flags&unix.AT_RECURSIVE == 0 {
		found = found[:1]
	}
	return path, found
}

func noIDMap(h *hinted) string {
	path, found := h.idmapSource()
	cause, remedy := mount.WhyNotIDMapped(found, h.step.Errno)
	if cause == "" {
		return ""
	}
	return path + ": " + cause + "\n" + remedy
}
