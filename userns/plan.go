package userns

import "fmt"

// Writer is who writes a map. The zero value is us, directly: one write(2) of [IDMap.String] to /proc/PID/uid_map or
// gid_map. Otherwise Helper is the path of newuidmap(1) or newgidmap(1), to be run with the pid and [IDMap.Fields].
type Writer struct {
	Helper string `json:"helper,omitempty"`
}

// Direct reports whether the map is written without a helper.
func (w Writer) Direct() bool { return w.Helper == "" }

// String is "direct" or the helper's path.
func (w Writer) String() string {
	if w.Direct() {
		return "direct"
	}
	return w.Helper
}

// Mapping is a plan for the two maps of a new user namespace. Its maps need no further check.
type Mapping struct {
	UID       IDMap  `json:"uid_map"`
	GID       IDMap  `json:"gid_map"`
	UIDWriter Writer `json:"uid_writer"`
	GIDWriter Writer `json:"gid_writer"`

	// DenySetgroups: write "deny" to /proc/PID/setgroups before gid_map (3.19). It is set where the kernel demands it
	// of a writer without CAP_SETGID, and only there.
	DenySetgroups bool `json:"deny_setgroups"`
	// Setgroups is what /proc/self/setgroups will read inside, allow or deny. With deny, setgroups(2) fails with EPERM
	// and the supplementary groups of the caller can't be dropped.
	Setgroups string `json:"setgroups"`

	Notes []string `json:"notes,omitempty"` // where ids came from, and everything that was passed over or fell back
}

// PlanMaps decides the maps of a new user namespace. It is pure. The error is a *PlanError.
//
// An ordinary user's auto map is his own id as 0 and all his sub-ids after it; root's is an unprivileged range. See
// the other modes at [Mode]. Outside ids are ids of the namespace that f describes.
func PlanMaps(req Request, f *Facts) (Mapping, error) {
	uid, gid := uidSide(f), gidSide(f)
	um, uw, unotes, uerr := uid.plan(req.Mode, req.UID)
	gm, gw, gnotes, gerr := gid.plan(req.Mode, req.GID)
	if uerr != nil || gerr != nil {
		return Mapping{}, both(uerr, gerr)
	}
	m := Mapping{UID: um, GID: gm, UIDWriter: uw, GIDWriter: gw, Setgroups: f.Setgroups}
	m.Notes = append(append(append(m.Notes, f.Notes...), unotes...), gnotes...)
	if gw.Direct() && !f.Privileged {
		m.denySetgroups(f.Setgroups)
	}
	return m, nil
}

// denySetgroups plans the gid_map of a writer without CAP_SETGID. A namespace inherits the denial of its parent, and
// then there is nothing to write.
func (m *Mapping) denySetgroups(parent string) {
	m.DenySetgroups = parent != "deny"
	m.Setgroups = "deny"
	m.Notes = append(m.Notes, "setgroups is denied: the kernel lets an unprivileged process map its own gid only so; "+
		"supplementary groups stay and can't be dropped")
}

// writer decides who writes m, and whether he can.
func (s side) writer(m IDMap) (Writer, []string, error) {
	if !s.facts.Privileged && !m.isSingle(s.own) {
		if err := s.toolError(); err != nil {
			return Writer{}, nil, err
		}
		return Writer{s.tool.Path}, s.passedOver(), nil
	}
	if _, mapsRoot := m.ToInside(0); mapsRoot && s.kind == "uid" && !s.facts.SetFCap {
		return Writer{}, nil, &PlanError{Reason: ReasonNoSetFCap,
			Cause:  "the uid map contains uid 0 of this namespace, which takes CAP_SETFCAP since kernel 5.12, and this process lacks it",
			Remedy: "use --map auto or other ids; or give the process CAP_SETFCAP"}
	}
	return Writer{}, nil, nil
}

func (s side) passedOver() []string {
	var notes []string
	for _, problem := range s.tool.PassedOver {
		notes = append(notes, fmt.Sprintf("used %s; passed over: %s", s.tool.Path, problem))
	}
	return notes
}
