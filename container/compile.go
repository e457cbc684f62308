package container

import (
	"errors"
	"fmt"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// A Plan is a container before it runs: the program of both lanes, and what it
// was made from.
type Plan struct {
	nsexec.Plan
	Phases  []Phase        `json:"phases"` // of the child lane
	Maps    userns.Mapping `json:"maps"`
	Cgroup  *cgroup.Plan   `json:"cgroup,omitempty"` // nil: the caller's
	Spec    *specs.Spec    `json:"-"`
	Options *Options       `json:"-"`
	Facts   *Facts         `json:"-"`

	warnings []string
}

// Compile plans a container. It is pure: the same spec, options and facts give
// the same plan, on any machine and for any user. Every fault of the request
// that can be seen beforehand is an error here.
func Compile(spec *specs.Spec, o *Options, f *Facts) (*Plan, error) {
	notes, err := CheckSpec(spec)
	if err != nil {
		return nil, err
	}
	c := &compiler{spec: spec, opts: o, facts: f}
	for _, n := range notes {
		if n.Path == "process.terminal" {
			c.warn("%s: %s", n.Path, n.Text)
			continue
		}
		c.note("%s: %s", n.Path, n.Text)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	tree, err := c.tree()
	if err = errors.Join(err, c.checkTrees()); err != nil {
		return nil, err
	}
	c.warnUnlocked()
	c.childLane(tree)
	if err := c.checkMemory(); err != nil {
		return nil, err
	}
	plan := &Plan{warnings: c.warnings, Phases: c.phases, Maps: c.maps, Cgroup: c.cgroup, Spec: spec, Options: o, Facts: f,
		Plan: nsexec.Plan{Host: c.hostLane(), Child: c.child, Notes: c.notes, DropsDumpable: c.dropsDumpable()}}
	return plan, nil
}

// Warnings are the notes that a person who asked for nothing special should see
// before the program's own output: what differs from what was asked for.
func (p *Plan) Warnings() []string { return p.warnings }

// compiler holds one compilation.
type compiler struct {
	spec     *specs.Spec
	opts     *Options
	facts    *Facts
	maps     userns.Mapping
	cgroup   *cgroup.Plan
	limits   cgroup.Limits
	user     specs.User // of the program
	flags    uint64     // CLONE_NEW*
	child    nsexec.Program
	notes    []string
	phases   []Phase
	marks    []Phase // of the mounts: First counts from 0 in the tree
	warnings []string
	trees    []hostTree
	mountNS  []mapNamespace // of the mounts' own maps
	sealed   []string       // fresh mounts to be made read-only at the end
}

// warn notes what differs from what was asked for.
func (c *compiler) warn(format string, args ...any) {
	c.note(format, args...)
	c.warnings = append(c.warnings, c.notes[len(c.notes)-1])
}

func (c *compiler) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// RequestError is a request that contradicts itself or this machine.
type RequestError struct {
	What   string // the flag or the JSON path
	Cause  string
	Remedy string
}

func (e *RequestError) Error() string {
	msg := e.What + ": " + e.Cause
	if e.Remedy != "" {
		msg += "\n  " + e.Remedy
	}
	return msg
}

// check decides the maps and the namespaces and refuses what can't work.
func (c *compiler) check() error {
	if c.spec.Process == nil || len(c.spec.Process.Args) == 0 {
		return &RequestError{"process.args", "no program was named", "wolffia run [flags] -- CMD [ARG…]"}
	}
	if c.spec.Process.Args[0] == "" {
		return &RequestError{"process.args", "the program's name is empty", "is a variable of the calling script unset?"}
	}
	if err := c.namespaces(); err != nil {
		return err
	}
	var err error
	if c.maps, err = userns.PlanMaps(c.mapRequest(), c.facts.IDs); err != nil {
		return err
	}
	c.notes = append(c.notes, c.maps.Notes...)
	c.chooseUser()
	return errors.Join(c.checkUser(), c.checkLimits(), c.checkRoot(), c.cgroupGroup())
}

// mapRequest takes a bundle's maps where it has some.
func (c *compiler) mapRequest() userns.Request {
	l := c.spec.Linux
	if l == nil || len(l.UIDMappings)+len(l.GIDMappings) == 0 {
		return c.opts.Map
	}
	return userns.Request{Mode: userns.Spec, UID: idMap(l.UIDMappings), GID: idMap(l.GIDMappings)}
}

func idMap(list []specs.LinuxIDMapping) userns.IDMap {
	var m userns.IDMap
	for _, e := range list {
		m = append(m, userns.Extent{Inside: e.ContainerID, Outside: e.HostID, Length: e.Size})
	}
	return m
}

// namespaces turns linux.namespaces into clone flags.
func (c *compiler) namespaces() error {
	flagOf := map[specs.LinuxNamespaceType]uint64{
		specs.UserNamespace: unix.CLONE_NEWUSER, specs.MountNamespace: unix.CLONE_NEWNS, specs.PIDNamespace: unix.CLONE_NEWPID,
		specs.IPCNamespace: unix.CLONE_NEWIPC, specs.UTSNamespace: unix.CLONE_NEWUTS,
		specs.CgroupNamespace: unix.CLONE_NEWCGROUP, specs.NetworkNamespace: unix.CLONE_NEWNET,
	}
	if c.spec.Linux != nil {
		for _, n := range c.spec.Linux.Namespaces {
			c.flags |= flagOf[n.Type]
		}
	}
	for _, need := range []specs.LinuxNamespaceType{specs.UserNamespace, specs.MountNamespace} {
		if c.flags&flagOf[need] == 0 {
			return &RequestError{"linux.namespaces", "there is no " + string(need) + " namespace, and wolffia starts nothing without one",
				`add {"type": "` + string(need) + `"}`}
		}
	}
	if c.spec.Hostname != "" && c.flags&unix.CLONE_NEWUTS == 0 {
		return &RequestError{"hostname", "it can't be set: the uts namespace is the host's", "leave --hostname or --share uts out"}
	}
	return nil
}

func (c *compiler) has(namespace uint64) bool { return c.flags&namespace != 0 }

// chooseUser: without --user the program is the container's root, or our own
// id where the map has no root.
func (c *compiler) chooseUser() {
	c.user = c.spec.Process.User
	if _, ok := c.maps.UID.ToOutside(0); c.opts.AnyUser && !ok {
		c.user.UID, _ = c.ownUID()
		c.user.GID, _ = c.ownGID()
		c.note("the program runs as uid %d: the map has no uid 0", c.user.UID)
	}
}

// checkUser: every id that the program gets must exist inside.
func (c *compiler) checkUser() error {
	u := c.user
	if _, ok := c.maps.UID.ToOutside(u.UID); !ok {
		return c.unmapped("--user", "uid", u.UID, c.maps.UID)
	}
	if _, ok := c.maps.GID.ToOutside(u.GID); !ok {
		return c.unmapped("--user", "gid", u.GID, c.maps.GID)
	}
	for _, g := range u.AdditionalGids {
		if _, ok := c.maps.GID.ToOutside(g); !ok {
			return c.unmapped("process.user.additionalGids", "gid", g, c.maps.GID)
		}
	}
	return c.checkGroups()
}

func (c *compiler) unmapped(what, kind string, id uint32, m userns.IDMap) error {
	return &RequestError{what, fmt.Sprintf("%s %d isn't in the container's map, which is (inside outside length)\n  %s", kind, id, mapText(m)),
		"take an id that is, or another --map"}
}

func mapText(m userns.IDMap) string {
	text := ""
	for i, e := range m {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %d %d", e.Inside, e.Outside, e.Length)
	}
	return text
}

// checkGroups decides about supplementary groups, and tells when they can't be dropped.
func (c *compiler) checkGroups() error {
	u := c.user
	denied := c.maps.Setgroups == "deny"
	switch {
	case c.opts.KeepGroups && (u.GID != 0 || len(u.AdditionalGids) > 0):
		return &RequestError{"--keep-groups", "it can't go together with another group: setgroups(2) would drop what is to be kept",
			"leave one of them out"}
	case c.opts.KeepGroups:
		c.warn("supplementary groups of the caller are kept: the program can reach what they can, under the overflow gid 65534 (--keep-groups)")
	case denied && len(u.AdditionalGids) > 0:
		return &RequestError{"process.user.additionalGids", "setgroups(2) is denied in a namespace whose map we write ourselves (user_namespaces(7))",
			"use --map auto, or leave the groups out"}
	case denied && len(c.otherGroups()) > 0:
		c.warn("the caller's supplementary groups %v could not be dropped, as setgroups is denied with this map; the program can reach what they can", c.otherGroups())
	}
	return nil
}

// otherGroups are the caller's supplementary groups besides his own.
func (c *compiler) otherGroups() []uint32 {
	own := c.facts.IDs.GID
	return slices.DeleteFunc(slices.Clone(c.facts.IDs.Groups), func(g uint32) bool { return g == own })
}

// checkLimits: a hard limit can be lowered, not raised.
func (c *compiler) checkLimits() error {
	var errs []error
	for _, l := range c.spec.Process.Rlimits {
		if have := c.facts.Limits[l.Type]; l.Hard > have.Hard {
			errs = append(errs, &RequestError{"process.rlimits " + l.Type,
				fmt.Sprintf("%s asked for as hard limit, and the hard limit of this process is %s", limitText(l.Hard), limitText(have.Hard)),
				"only the host's root can raise a hard limit (setrlimit(2)): ask for less, or raise it in limits.conf or the service"})
		}
	}
	return errors.Join(errs...)
}

func limitText(v uint64) string {
	if v == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprint(v)
}

// checkRoot: what this kernel can't build is refused by name.
func (c *compiler) checkRoot() error {
	kind, features := c.opts.Root.Kind, c.facts.Features
	if !features.MountSetattr {
		return fmt.Errorf("%w\n  start it on Linux 5.12 or newer: no flag does without this call",
			&nsexec.UnsupportedError{Feature: "mount_setattr(2) (kernel " + c.facts.Kernel + ")", Since: "5.12", Errno: unix.ENOSYS})
	}
	if r := c.opts.Root; c.idmappedRoot() && (r.Upper != "" || len(r.Lower) > 0) {
		return &RequestError{"--upper, --lower", "a start by root idmaps its root, and only a single folder can be so far",
			"use --map host, or start as the user whose folders these are"}
	}
	if kind == RootOverlay && !features.PerLayer {
		return checkOptionLength(c.overlay())
	}
	return nil
}

func checkOptionLength(o mount.Overlay) error {
	if n := len(o.Options(o.Upper, o.Work)); n > mount.MaxOptions-64 {
		return &RequestError{"--lower", fmt.Sprintf("the overlay options are %d bytes long, and mount(2) takes %d before Linux 6.7", n, mount.MaxOptions),
			"use fewer layers or shorter paths"}
	}
	return nil
}
