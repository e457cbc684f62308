package cgroup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ProbeOptions tell how far to look.
type ProbeOptions struct {
	Limits  Limits // what will be asked for: only hierarchies that it needs are looked into; empty: all
	Parent  string // a named parent: see Wish.Parent
	Freezer bool   // look into v1's freezer too: see Wish.Freezer
	Try     bool   // make and remove a throw-away cgroup where faccessat(2) says that we may

	files []string // limits to read in each folder, besides the usual ones
}

// Probe looks at Root, at our own cgroup in each hierarchy and at each folder
// above it, and asks the kernel what we may do there (faccessat(2), which knows
// of read-only mounts too). It changes nothing, but for o.Try. An error is a
// file of /proc that can't be read.
func Probe(o ProbeOptions) (*Facts, error) {
	o.files = o.Limits.Files()
	f := &Facts{Root: Root, Tree: Look(Root), UID: os.Geteuid(), PID: os.Getpid(), Name: NewName()}
	f.Bus = probeBus(f.UID, o)
	if f.Bus.Manager != "" {
		f.Scope = scopeTool()
	}
	if f.Tree == NoTree {
		return f, nil
	}
	own, err := read("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := read("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	list := parseMounts(mounts, f.Root)
	if len(list) == 0 { // an empty tmpfs, as a container has it that shares the host's network and so its /sys
		f.Tree = NoTree
	}
	for _, own := range parseOwn(own) {
		for _, m := range list {
			if m.has(own) {
				f.Hierarchies = append(f.Hierarchies, probeHierarchy(m, own, o))
				break
			}
		}
	}
	return f, nil
}

// NewName names a folder that no other start has: the pid, for a reader, and the time.
func NewName() string {
	return fmt.Sprintf("%s%d-%x", namePrefix, os.Getpid(), time.Now().UnixNano())
}

func probeHierarchy(m cgroupMount, own ownCgroup, o ProbeOptions) Hierarchy {
	h := Hierarchy{Version: m.version, Controllers: own.controllers, Mount: m.point, Own: own.path,
		NSDelegate: slices.Contains(m.super, "nsdelegate")}
	if m.version == 2 {
		h.Controllers = words(m.point + "/cgroup.controllers")
	}
	m.controllers = h.Controllers
	if !o.needs(h) {
		return h
	}
	folder, missing := m.locate(own.path)
	if missing == "" && unix.Access(folder, unix.F_OK) != nil {
		missing = fmt.Sprintf("our cgroup is %s, and there is no %s", own.path, folder)
	}
	if h.Missing = missing; missing == "" {
		h.Chain = probeChain(folder, m, o)
	}
	if o.Parent == "" {
		return h
	}
	if named := namedFolder(o.Parent, folder, m.point); unix.Access(named, unix.F_OK) == nil {
		h.Named = probeChain(named, m, o)
	}
	return h
}

// needs tells whether a limit may be written in a hierarchy.
func (o ProbeOptions) needs(h Hierarchy) bool {
	if len(o.Limits) == 0 || o.Freezer && h.Version == 1 && contains(h.Controllers, "freezer") {
		return true
	}
	return slices.ContainsFunc(o.Limits, func(l Limit) bool {
		c := l.Controller(h.Version)
		return contains(h.Controllers, c) || c == "" && h.Version == 2 && len(l.V2) > 0
	})
}

// namedFolder is where a named parent lies: an absolute path begins at the
// hierarchy's mount, or at Root, any other at our own cgroup.
func namedFolder(parent, own, mount string) string {
	clean := filepath.Clean(parent)
	switch {
	case within(clean, mount):
		return clean
	case filepath.IsAbs(clean):
		return path.Join(mount, clean)
	}
	return path.Join(own, clean)
}

// probeChain looks at a folder and those above it, up to the mount.
func probeChain(folder string, m cgroupMount, o ProbeOptions) []Folder {
	var chain []Folder
	for ; within(folder, m.point); folder = path.Dir(folder) {
		chain = append(chain, probeFolder(folder, m, o))
	}
	return chain
}

func probeFolder(folder string, m cgroupMount, o ProbeOptions) Folder {
	f, there := Folder{Path: folder}, m.controllers
	f.Mkdir = f.may("mkdir", folder, unix.W_OK|unix.X_OK)
	f.Attach = f.may("write cgroup.procs", folder+"/cgroup.procs", unix.W_OK)
	if m.version == 2 {
		f.Enable = f.may("write cgroup.subtree_control", folder+"/cgroup.subtree_control", unix.W_OK)
		f.Controllers = words(folder + "/cgroup.controllers")
		f.Enabled = words(folder + "/cgroup.subtree_control")
		kind, err := read(folder + "/cgroup.type")
		f.Type, f.Top = strings.TrimSpace(kind), err != nil
		there = f.Controllers // what the parent enables is what has files here
	}
	if f.Mkdir && m.version == 2 {
		f.Others = others(folder) // v1 has no rule of no internal processes
	}
	if f.Mkdir && o.Try {
		f.try(folder)
	}
	f.readValues(slices.Concat(outerLimits(m.version), o.files), there)
	return f
}

// may asks for the effective ids, and notes the first refusal.
func (f *Folder) may(what, path string, mode uint32) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	if err != nil && f.Denied == "" {
		f.Denied = what + ": " + unix.ErrnoName(err.(unix.Errno))
	}
	return err == nil
}

// try does what may only asked about.
func (f *Folder) try(folder string) {
	name := folder + "/" + NewName()
	err := unix.Mkdir(name, 0o755)
	if err == nil {
		err = unix.Rmdir(name)
	}
	if err != nil {
		f.Mkdir, f.Denied = false, "mkdir: "+unix.ErrnoName(err.(unix.Errno))
	}
}

// others counts the processes in a cgroup besides ours. One of another pid
// namespace reads as 0, and counts.
func others(folder string) int {
	self := strconv.Itoa(os.Getpid())
	list := words(folder + "/cgroup.procs")
	return len(list) - len(slices.DeleteFunc(list, func(s string) bool { return s != self }))
}

// outerLimits are looked at whatever is asked for: a container that is placed
// elsewhere must not escape them unseen, and a child of a v1 cpuset needs both of
// its parent's lists.
func outerLimits(version int) []string {
	if version == 1 {
		return []string{"memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "cpuset.cpus", "cpuset.mems"}
	}
	return []string{"memory.max", "memory.high", "pids.max", "cpu.max"}
}

func (f *Folder) readValues(files, controllers []string) {
	for _, file := range files {
		if c, _, _ := strings.Cut(file, "."); !contains(controllers, c) || f.Values[file] != "" {
			continue
		}
		text, err := read(f.Path + "/" + file)
		if err != nil {
			continue // not here: the root has none, or the controller isn't enabled
		}
		if f.Values == nil {
			f.Values = map[string]string{}
		}
		f.Values[file] = strings.TrimSpace(text)
	}
}
