package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// site is where a v2 cgroup will be made.
type site struct {
	placement Placement
	base      string
	above     []Folder // base and what is above it, as far as it is known
	enable    []string // controllers to enable in base
	move      bool     // the launcher has to leave base first
	left      []string // outer limits that will not hold for the container
}

// unified places what goes to the v2 hierarchy. A controller that isn't to be
// had is refused, and the rest is tried without it, so that one answer tells all.
func (c *compiler) unified(limits Limits) {
	h := c.facts.v2()
	for h != nil && (len(limits) > 0 || len(c.wish.Limits) == 0) {
		s, r := c.choose(h, limits.Controllers(2))
		if r == nil {
			c.build(s, limits)
			return
		}
		given, kept := Limits{}, Limits{}
		for _, l := range limits {
			if r.Controller == "" || l.Controller(2) == r.Controller {
				given = append(given, l)
			} else {
				kept = append(kept, l)
			}
		}
		c.refuse(r, given)
		if limits = kept; r.Controller == "" {
			return
		}
	}
}

// choose tries the candidates in their order; the package comment lists them.
func (c *compiler) choose(h *Hierarchy, need []string) (*site, *Refusal) {
	if c.wish.Parent != "" {
		return c.named(h, need)
	}
	chain := h.Chain
	if len(chain) > 0 && strings.HasPrefix(path.Base(chain[0].Path), leafPrefix) {
		chain = chain[1:] // where an earlier start of ours put us
	}
	var tried []*Refusal
	attempt := func(s *site, r *Refusal) *site {
		if r != nil {
			tried = append(tried, r)
		}
		return s
	}
	if h.Missing != "" {
		attempt(nil, c.missing(h))
	}
	if c.wish.Manager != Systemd && len(chain) > 0 {
		if s := attempt(c.fit(h, chain, 0, need)); s != nil {
			return s, nil
		}
	}
	if c.wish.Manager != Direct {
		if s := attempt(c.scope(h, need)); s != nil {
			return s, nil
		}
	}
	for i := 1; c.wish.Manager != Systemd && i < len(chain); i++ {
		if s := attempt(c.fit(h, chain, i, need)); s != nil {
			return s, nil
		}
	}
	return nil, telling(tried)
}

// fit looks at one folder of our own chain.
func (c *compiler) fit(h *Hierarchy, chain []Folder, i int, need []string) (*site, *Refusal) {
	f := chain[i]
	s := &site{placement: c.placement(), base: f.Path, above: chain[i:]}
	switch {
	case !f.Mkdir || !f.Attach:
		return nil, c.notDelegated(h, f)
	case f.Type != "domain" && f.Type != "" && !(f.Type == "domain threaded" && need == nil):
		return nil, c.threaded(h, f)
	}
	for _, controller := range need {
		switch {
		case !contains(f.Controllers, controller):
			return nil, c.notEnabled(controller, chain[i:])
		case !contains(f.Enabled, controller):
			s.enable = append(s.enable, controller)
		}
	}
	if s.enable != nil && !f.Enable {
		return nil, c.notDelegated(h, f)
	}
	if s.enable != nil && f.Others > 0 && !f.Top {
		return nil, c.innerNode(h, f)
	}
	s.move = s.enable != nil && i == 0 && !f.Top && f.Path == h.Chain[0].Path
	if s.left = leftBehind(chain[:i]); s.left != nil && c.wish.Parent == "" {
		return nil, c.escapes(f, s.left)
	}
	return s, nil
}

// named is the folder that the user named. To put a child there we must be
// allowed to write cgroup.procs of the nearest folder above both it and us.
func (c *compiler) named(h *Hierarchy, need []string) (*site, *Refusal) {
	if h.Named == nil {
		return nil, c.notThere(h)
	}
	top := h.Named[0].Path
	for i, f := range h.Chain {
		if within(top, f.Path) {
			if !f.Attach {
				return nil, c.outside(h, f)
			}
			if i == 0 && top == f.Path {
				return c.fit(h, h.Chain, 0, need)
			}
			s, r := c.fit(h, h.Named, 0, need)
			if r == nil {
				s.left, s.move = leftBehind(h.Chain[:i]), false
			}
			return s, r
		}
	}
	return nil, c.outside(h, Folder{Path: h.Mount})
}

// scope asks systemd. What its manager can enable is what its own cgroup has.
func (c *compiler) scope(h *Hierarchy, need []string) (*site, *Refusal) {
	bus := c.facts.Bus
	if bus.Manager == "" || c.facts.Tree != Unified {
		return nil, c.noManager()
	}
	if c.facts.Scope == "" {
		return nil, c.noScopeTool()
	}
	s := &site{placement: SystemdUser, base: ScopePath, above: bus.Chain, enable: need, move: true}
	if bus.Manager == "system" {
		s.placement = SystemdSystem
	}
	if c.wish.Writable {
		s.enable = toGiveOn(need, bus.Chain)
	}
	if len(bus.Chain) > 0 {
		for _, controller := range need {
			if !contains(bus.Chain[0].Controllers, controller) {
				return nil, c.notEnabled(controller, bus.Chain)
			}
		}
		for i, f := range h.Chain {
			if within(bus.Chain[0].Path, f.Path) {
				s.left = leftBehind(h.Chain[:i])
				break
			}
		}
	}
	if slices.ContainsFunc(s.left, func(l string) bool { return !strings.Contains(l, "/pids.max ") }) {
		return nil, c.escapes(Folder{Path: "a scope of systemd's " + bus.Manager + " manager"}, s.left)
	}
	return s, nil // systemd gives each scope a pids.max (DefaultTasksMax=), the new one too
}

func (c *compiler) placement() Placement {
	if c.facts.UID == 0 {
		return AsRoot
	}
	return Delegated
}

// leftBehind are the limits of folders that the container won't be in.
func leftBehind(chain []Folder) []string {
	var list []string
	for _, f := range chain {
		for _, file := range sortedKeys(f.Values) {
			if limiting(file, f.Values[file]) {
				list = append(list, fmt.Sprintf("%s/%s %s", f.Path, file, f.Values[file]))
			}
		}
	}
	return list
}

// outerMemory are the memory limits of folders above, from the nearest.
func outerMemory(above []Folder, file string) []string {
	var list []string
	for _, f := range above {
		if value, ok := f.Values[file]; ok && limiting(file, value) {
			list = append(list, f.Path+"/"+file)
		}
	}
	return list
}

// leastMemory is the least of them, in bytes.
func leastMemory(above []Folder, file string) (least uint64) {
	for _, f := range above {
		if value, ok := f.Values[file]; ok && limiting(file, value) && (least == 0 || number(value) < least) {
			least = number(value)
		}
	}
	return least
}

// build adds the steps for a site.
func (c *compiler) build(s *site, limits Limits) {
	g := Planned{Placement: s.placement, Version: 2, Base: s.base, Path: s.base + "/" + c.name, Enabled: s.enable, Outer: outerMemory(s.above, "memory.max"), Least: leastMemory(s.above, "memory.max")}
	if s.base == ScopePath {
		c.step(c.scopeStep())
	}
	if s.move {
		g.Leaf = s.base + "/" + leafPrefix + strings.TrimPrefix(c.facts.Name, namePrefix)
		c.moveSteps(g.Leaf)
	}
	if s.enable != nil {
		c.step(Step{Name: "enable controllers", Op: OpEnable, Path: s.base + "/cgroup.subtree_control", Data: "+" + strings.Join(s.enable, " +"),
			Man: "cgroups(7)", Why: "a cgroup has the files of those controllers that its parent enables"})
	}
	c.folder(g.Path)
	c.writes(limits, 2, g.Path, s.above)
	if g.Birth = g.Path; c.wish.Writable {
		g.Birth = c.inside(g.Path, 2, s.available())
	}
	for _, l := range s.left {
		c.note("outer limit left behind: the container isn't below %s", l)
	}
	c.plan.Groups = append(c.plan.Groups, g)
}

// folder makes and locks the container's cgroup.
func (c *compiler) folder(path string) {
	c.step(Step{Name: "make the cgroup", Op: OpMkdir, Path: path, Man: "cgroups(7)", Why: "the container's own folder: its limits end with it"})
	c.step(Step{Name: "lock it", Op: OpLock, Path: path, Man: "flock(2)",
		Why: "the kernel drops the lock when we die: then the next command may remove the folder. The fd is also what clone3 takes (CLONE_INTO_CGROUP)"})
}

func (c *compiler) moveSteps(leaf string) {
	c.step(Step{Name: "make a leaf for the launcher", Op: OpMkdir, Path: leaf, Man: "cgroups(7)",
		Why: "a cgroup with processes in it can't give controllers to its children, and the launcher is in it"})
	c.step(Step{Name: "lock it", Op: OpLock, Path: leaf, Man: "flock(2)", Why: "nobody shall take it for a dead one"})
	c.step(Step{Name: "move the launcher", Op: OpMove, Path: leaf + "/cgroup.procs", Data: fmt.Sprint(c.facts.PID), Man: "cgroups(7)",
		Why: "itself alone: no other process is moved"})
}

// inside is the folder of a container that may make cgroups: with its limits
// one level above, where it can't reach them, and an end to what it can make.
func (c *compiler) inside(path string, version int, controllers []string) string {
	if version == 2 {
		if len(controllers) > 0 {
			c.step(Step{Name: "enable controllers for the folders inside", Op: OpEnable, Path: path + "/cgroup.subtree_control", Data: "+" + strings.Join(controllers, " +"),
				Man: "cgroup-v2(rst)", Why: "so that the container may limit what it makes"})
		}
		c.step(Step{Name: "limit the folders inside", Op: OpWrite, Path: path + "/cgroup.max.descendants", Data: "1000",
			Man: "cgroup-v2(rst)", Why: "each folder takes kernel memory, and the container may make them (google/nsjail#199)"})
	}
	inner := path + "/" + innerName
	c.step(Step{Name: "make the container's root of cgroups", Op: OpMkdir, Path: inner, Man: "cgroup_namespaces(7)",
		Why: "the container may write in it, and not raise its own limits, which lie above"})
	c.step(Step{Name: "open it", Op: OpLock, Path: inner, Man: "flock(2)", Why: "clone3 takes the fd (CLONE_INTO_CGROUP)"})
	return inner
}

func (c *compiler) scopeStep() Step {
	unit := c.facts.Name + ".scope"
	argv := []string{c.facts.Scope, "--" + c.facts.Bus.Manager, "--unit", unit, "--pid", fmt.Sprint(c.facts.PID), "--socket", c.facts.Bus.Socket}
	return Step{Name: "ask systemd for a scope", Op: OpScope, Path: c.facts.Scope, Argv: argv, Man: "org.freedesktop.systemd1(5)",
		Why: "StartTransientUnit with Delegate=yes: only systemd may move the launcher there, and what is below is ours"}
}

// toGiveOn adds to what the limits need what every systemd delegates and the
// container may want to give on, as far as the manager has it.
func toGiveOn(need []string, manager []Folder) []string {
	list := slices.Clone(need)
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if len(manager) > 0 && contains(manager[0].Controllers, controller) {
			list = append(list, controller)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// available are the controllers that a folder made here has.
func (s *site) available() []string {
	list := slices.Clone(s.enable)
	if len(s.above) > 0 && s.base != ScopePath {
		list = append(list, s.above[0].Enabled...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }
