package cgroup

// Facts are what stands at Root and where we are in it. They are plain data:
// saved, they plan for another machine.
type Facts struct {
	Root        string      `json:"root"`
	Tree        Tree        `json:"tree"`
	UID         int         `json:"uid"`
	PID         int         `json:"pid"`  // of the launcher
	Name        string      `json:"name"` // a name that no other folder has: see NewName
	Hierarchies []Hierarchy `json:"hierarchies"`
	Bus         Bus         `json:"bus"`
	Scope       string      `json:"scope_tool,omitempty"` // path of wolffia-scope
}

// A Hierarchy is one tree of cgroups, mounted somewhere below Root.
type Hierarchy struct {
	Version     int      `json:"version"`               // 1 or 2
	Controllers []string `json:"controllers,omitempty"` // v1: those it was mounted with; v2: those of the kernel that are here
	Mount       string   `json:"mount"`                 // "/sys/fs/cgroup/memory"
	NSDelegate  bool     `json:"nsdelegate,omitempty"`  // v2: a cgroup namespace's own limits can't be changed inside (4.13)
	Own         string   `json:"own"`                   // our cgroup as /proc/self/cgroup has it
	Missing     string   `json:"missing,omitempty"`     // why Own isn't to be found below Mount
	Chain       []Folder `json:"chain,omitempty"`       // from our own upward to Mount
	Named       []Folder `json:"named,omitempty"`       // from the named parent upward; nil when it isn't there
}

// A Folder is one cgroup and what we may do in it, found by asking the kernel.
type Folder struct {
	Path        string            `json:"path"`
	Mkdir       bool              `json:"mkdir,omitempty"`       // make a cgroup in it
	Attach      bool              `json:"attach,omitempty"`      // write its cgroup.procs: needed in what is above both places of a move
	Enable      bool              `json:"enable,omitempty"`      // v2: write its cgroup.subtree_control
	Denied      string            `json:"denied,omitempty"`      // the first of them that we may not, and why: "mkdir: EACCES"
	Top         bool              `json:"top,omitempty"`         // v2: the real root, where processes may stay (it has no cgroup.type)
	Type        string            `json:"type,omitempty"`        // v2: cgroup.type: "domain", "threaded", …
	Controllers []string          `json:"controllers,omitempty"` // v2: cgroup.controllers, what may be enabled for children
	Enabled     []string          `json:"enabled,omitempty"`     // v2: cgroup.subtree_control
	Others      int               `json:"others,omitempty"`      // processes in it besides us, where we may make a cgroup
	Values      map[string]string `json:"values,omitempty"`      // the limits in it, of the kinds that were asked for
}

// Bus is how a systemd manager can be reached that makes scopes for us.
type Bus struct {
	Manager string   `json:"manager,omitempty"` // "user", "system", or "": none
	Socket  string   `json:"socket,omitempty"`  // that answered
	Systemd bool     `json:"systemd,omitempty"` // this machine runs systemd (sd_booted(3))
	Chain   []Folder `json:"chain,omitempty"`   // from the manager's own cgroup upward
}

// v2 is the unified hierarchy, if there is one.
func (f *Facts) v2() *Hierarchy {
	for i := range f.Hierarchies {
		if f.Hierarchies[i].Version == 2 {
			return &f.Hierarchies[i]
		}
	}
	return nil
}

// v1 is the v1 hierarchy that has a controller.
func (f *Facts) v1(controller string) *Hierarchy {
	for i, h := range f.Hierarchies {
		if h.Version == 1 && contains(h.Controllers, controller) {
			return &f.Hierarchies[i]
		}
	}
	return nil
}
