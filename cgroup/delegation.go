package cgroup

// A Verdict tells whether the limits of one controller can be in force here.
type Verdict struct {
	Controller string    `json:"controller"`
	Placement  Placement `json:"placement,omitempty"` // when they can
	Base       string    `json:"base,omitempty"`      // the folder that is ours
	Refusal    *Refusal  `json:"refusal,omitempty"`   // when they can't: where the chain stops, and what mends it
	Notes      []string  `json:"notes,omitempty"`
}

// Delegation asks for one limit of each controller that wolffia has flags for,
// and io. It is pure: what was looked at is in the facts. Only with
// ProbeOptions.Try was a cgroup made to see.
func Delegation(f *Facts) []Verdict {
	var list []Verdict
	for _, l := range []Limit{
		one("memory.max", "--memory", "67108864", Setting{"memory.limit_in_bytes", "67108864"}),
		cpuMax("--cpus", PeriodUSec, PeriodUSec),
		one("cpuset.cpus", "--cpuset-cpus", "0", Setting{"cpuset.cpus", "0"}),
		one("pids.max", "--pids-limit", "20", Setting{"pids.max", "20"}),
		one("io.weight", "--cgroup-conf io.weight", "default 100", Setting{"blkio.bfq.weight", "100"}),
	} {
		v := Verdict{Controller: l.Controller(2)}
		switch p, err := Compile(Wish{Limits: Limits{l}, Mode: Try}, f); {
		case err != nil:
			v.Refusal = &Refusal{Reason: NotDelegated, Cause: err.Error()}
		case len(p.Refused) > 0:
			v.Refusal = p.Refused[0]
		default:
			v.Placement, v.Base, v.Notes = p.Groups[0].Placement, p.Groups[0].Base, p.Notes
		}
		list = append(list, v)
	}
	return list
}

// Pretend gives the facts of a worse machine, to see what would be said there.
// ok is false for a name that it doesn't know: see Pretences.
func (f *Facts) Pretend(what string) (worse *Facts, ok bool) {
	change, ok := pretences()[what]
	if !ok {
		return f, false
	}
	worse = f.clone()
	change(worse)
	return worse, true
}

// Pretences are the names that Pretend knows, sorted.
func Pretences() []string { return sortedKeys(pretences()) }

func pretences() map[string]func(*Facts) {
	m := map[string]func(*Facts){
		"no-cgroupfs":   func(f *Facts) { f.Tree, f.Hierarchies, f.Bus = NoTree, nil, Bus{} },
		"no-systemd":    func(f *Facts) { f.Bus = Bus{} },
		"no-delegation": func(f *Facts) { f.Bus = Bus{Systemd: f.Bus.Systemd}; f.deny("EACCES") },
		"read-only-cgroups": func(f *Facts) {
			f.Bus = Bus{Systemd: f.Bus.Systemd}
			f.deny("EROFS")
		},
	}
	for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		m["no-"+controller] = func(f *Facts) { f.withhold(controller) }
	}
	return m
}

// deny takes every folder from us.
func (f *Facts) deny(errno string) {
	for _, h := range f.Hierarchies {
		for _, chain := range [][]Folder{h.Chain, h.Named} {
			for i := range chain {
				chain[i].Mkdir, chain[i].Attach, chain[i].Enable, chain[i].Denied = false, false, false, "mkdir: "+errno
			}
		}
	}
}

// withhold stops a controller at the top: v2 gives it to no child of the mount,
// and v1's hierarchy isn't there.
func (f *Facts) withhold(controller string) {
	var kept []Hierarchy
	for _, h := range f.Hierarchies {
		if h.Version == 1 && contains(h.Controllers, controller) {
			continue
		}
		stop(h.Chain, controller)
		stop(h.Named, controller)
		kept = append(kept, h)
	}
	f.Hierarchies = kept
	stop(f.Bus.Chain, controller)
}

func stop(chain []Folder, controller string) {
	for i := range chain {
		if i < len(chain)-1 {
			chain[i].Controllers = lacking(chain[i].Controllers, controller)
		}
		chain[i].Enabled = lacking(chain[i].Enabled, controller)
	}
}

func lacking(list []string, s string) []string {
	var kept []string
	for _, x := range list {
		if x != s {
			kept = append(kept, x)
		}
	}
	return kept
}

// clone copies what Pretend changes.
func (f *Facts) clone() *Facts {
	c := *f
	c.Hierarchies = append([]Hierarchy(nil), f.Hierarchies...)
	for i, h := range c.Hierarchies {
		c.Hierarchies[i].Chain, c.Hierarchies[i].Named = append([]Folder(nil), h.Chain...), append([]Folder(nil), h.Named...)
	}
	c.Bus.Chain = append([]Folder(nil), f.Bus.Chain...)
	return &c
}
