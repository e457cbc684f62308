package cgroup

import (
	"fmt"
	"strings"

	"wolffia.dev/nsexec"
)

// A Wish is what is asked for.
type Wish struct {
	Limits   Limits
	Mode     Mode
	Parent   string  // make it here and nowhere else: absolute from the hierarchy's mount, or relative to our own cgroup
	Name     string  // the folder's name; "": Facts.Name
	Manager  Manager // who makes the folder
	Freezer  bool    // it shall be frozen, or killed as a whole: v1 takes a folder of its own for that, v2 none
	Writable bool    // the container may make cgroups below its own: it gets a folder inside, so that its limits stay ours
}

// asks tells whether a cgroup is needed for it.
func (w Wish) asks() bool { return len(w.Limits) > 0 || w.Parent != "" || w.Writable }

// Mode is what happens when a limit can't be in force.
type Mode string

const (
	Require Mode = "require" // the container doesn't start; also ""
	Try     Mode = "try"     // it starts without, with a warning
)

// Manager is who may make the container's cgroup.
type Manager string

const (
	AnyManager Manager = ""        // we ourselves where that escapes no limit, else systemd
	Direct     Manager = "direct"  // we ourselves: no D-Bus
	Systemd    Manager = "systemd" // systemd's manager
)

// Placement is how a cgroup came to be ours to make.
type Placement string

const (
	Delegated     Placement = "delegated"      // a v2 folder that was delegated to us
	SystemdUser   Placement = "systemd-user"   // a scope of the user's systemd
	SystemdSystem Placement = "systemd-system" // a scope of the system's systemd, for root
	AsRoot        Placement = "root"           // root needs no delegation
	V1            Placement = "v1"             // a folder of a v1 hierarchy
)

// Planned is the container's cgroup in one hierarchy.
type Planned struct {
	Placement Placement `json:"placement"`
	Version   int       `json:"version"`
	Path      string    `json:"path"`              // the limits are here
	Birth     string    `json:"birth"`             // the child is here: Path, or a folder in it (Wish.Writable)
	Base      string    `json:"base"`              // the folder that is delegated to us
	Leaf      string    `json:"leaf,omitempty"`    // where the launcher moves itself
	Enabled   []string  `json:"enabled,omitempty"` // controllers that we enable in Base
	Outer     []string  `json:"outer,omitempty"`   // files of memory limits above
	Least     uint64    `json:"least,omitempty"`   // of them, in bytes; 0: there is none
}

// A Plan is what will be done for the limits, and what can't be. It is for one
// start: the names in it are used once, and the launcher may be elsewhere
// afterwards. The next start probes again.
type Plan struct {
	Groups  []Planned      `json:"groups"`
	Before  []Step         `json:"before"`           // until the child is made
	Inside  nsexec.Program `json:"inside,omitempty"` // by the child, among its first steps: v1
	Ledger  Ledger         `json:"ledger"`
	Refused []*Refusal     `json:"refused,omitempty"` // with Try only
	Notes   []string       `json:"notes,omitempty"`
	Mode    Mode           `json:"mode"`
}

// String is the plan as golden tests compare it.
func (p *Plan) String() string {
	var b strings.Builder
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "group %s v%d %s\n", g.Placement, g.Version, g.Path)
	}
	for i, s := range p.Before {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, s)
	}
	for i, s := range p.Inside {
		fmt.Fprintf(&b, "%3d  %s (the child)\n", len(p.Before)+i+1, s)
	}
	for _, e := range p.Ledger {
		fmt.Fprintf(&b, "ledger: %s\n", e)
	}
	for _, n := range p.Notes {
		b.WriteString("note: " + n + "\n")
	}
	return b.String()
}

// Compile decides where the container's cgroup is made and by which steps. It
// is pure. With Require an error is a *RefusedError; with Try what can't be in
// force is in Plan.Refused and in the ledger. Without limits, a named parent
// and Wish.Writable the plan is empty.
func Compile(w Wish, f *Facts) (*Plan, error) {
	c := &compiler{wish: w, facts: f, plan: &Plan{Mode: w.Mode, Before: []Step{}, Groups: []Planned{}}, name: w.Name}
	if c.name == "" {
		c.name = f.Name
	}
	if strings.ContainsAny(c.name, "/\n\x00") || c.name == "." || c.name == ".." {
		return nil, &ValueError{"the cgroup's name", c.name, "it names no folder", "leave / out"}
	}
	if w.asks() {
		v2, v1 := c.split()
		c.unified(v2)
		c.legacy(v1)
		c.freezer()
	}
	if len(c.refused) == 0 {
		return c.plan, nil
	}
	if w.Mode != Try {
		return nil, &RefusedError{c.refused}
	}
	c.plan.Refused = c.refused
	return c.plan, nil
}

// compiler holds one compilation.
type compiler struct {
	wish    Wish
	facts   *Facts
	plan    *Plan
	name    string
	refused []*Refusal
}

func (c *compiler) note(format string, args ...any) {
	c.plan.Notes = append(c.plan.Notes, fmt.Sprintf(format, args...))
}

func (c *compiler) step(s Step) { c.plan.Before = append(c.plan.Before, s) }

// refuse gives limits up, for one reason.
func (c *compiler) refuse(r *Refusal, limits Limits) {
	if len(limits) == 0 { // the folder itself was asked for
		limits = Limits{{Key: "cgroup", Asked: "a cgroup of its own"}}
	}
	for _, l := range limits {
		r.Limits = append(r.Limits, l.Asked)
		c.plan.Ledger = append(c.plan.Ledger, Entry{Key: l.Key, Asked: l.Asked, State: NotInForce, Cause: r.Cause})
	}
	c.refused = append(c.refused, r)
}

// split tells in which version each limit can be written. On a hybrid machine
// each controller is in one hierarchy only.
func (c *compiler) split() (v2, v1 Limits) {
	if c.facts.Tree == NoTree {
		c.refuse(c.noTree(), c.wish.Limits)
		return nil, nil
	}
	unified := c.facts.v2()
	for _, l := range c.wish.Limits {
		in2, in1 := l.Controller(2), l.Controller(1)
		switch {
		case unified != nil && len(l.V2) > 0 && (in2 == "" || contains(unified.Controllers, in2)):
			v2 = append(v2, l)
		case in1 != "" && c.facts.v1(in1) != nil:
			v1 = append(v1, l)
		default:
			c.refuse(c.noController(l), Limits{l})
		}
	}
	return v2, v1
}

// writes adds the steps and ledger entries that put limits in force in a folder.
// above are the folders around it, from the nearest.
func (c *compiler) writes(limits Limits, version int, folder string, above []Folder) {
	first := len(c.plan.Ledger)
	for _, l := range limits {
		for _, s := range l.settings(version) {
			e := Entry{Key: l.Key, Asked: l.Asked, File: folder + "/" + s.File, Want: s.Value, State: Intended}
			e.Tighter = tighter(s, limits, version, above)
			c.plan.Ledger = append(c.plan.Ledger, e)
			c.step(Step{Name: "limit " + s.File, Op: OpWrite, Path: e.File, Data: s.Value, Entry: len(c.plan.Ledger),
				Man: manPage(version), Why: l.Asked})
		}
	}
	for i, e := range c.plan.Ledger[first:] {
		c.step(Step{Name: "read back", Op: OpRead, Path: e.File, Entry: first + i + 1, Man: manPage(version),
			Why: "the kernel rounds, and may take less than was asked for"})
	}
}

func manPage(version int) string {
	if version == 1 {
		return "cgroup-v1(rst)"
	}
	return "cgroup-v2(rst)"
}
