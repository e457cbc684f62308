package userns

import (
	"errors"
	"fmt"
	"math"
)

// side is one of the two maps, with the facts that concern it: uids and gids are planned by the same rules, apart
// from each other.
type side struct {
	kind    string // "uid" or "gid"
	own     uint32
	parent  IDMap
	subs    []Range
	file    string
	tool    Tool
	reasons sideReasons
	facts   *Facts
}

type sideReasons struct{ noSubIDs, noTool, badTool Reason }

func uidSide(f *Facts) side {
	return side{"uid", f.UID, f.UIDMap, f.SubUID, "/etc/subuid", named(f.NewUIDMap, "newuidmap"),
		sideReasons{ReasonNoSubUIDs, ReasonNoNewUIDMap, ReasonUIDMapTool}, f}
}

func gidSide(f *Facts) side {
	return side{"gid", f.GID, f.GIDMap, f.SubGID, "/etc/subgid", named(f.NewGIDMap, "newgidmap"),
		sideReasons{ReasonNoSubGIDs, ReasonNoNewGIDMap, ReasonGIDMapTool}, f}
}

func named(t Tool, name string) Tool {
	t.Name = name
	return t
}

func (s side) owner() string { return Owner{s.facts.User, s.facts.UID}.String() }

// plan is the map of one side, ready to write, and who writes it.
func (s side) plan(mode Mode, explicit IDMap) (IDMap, Writer, []string, error) {
	m, notes, err := s.choose(mode, explicit)
	if err != nil {
		return nil, Writer{}, nil, err
	}
	m, err = s.check(m)
	if err != nil {
		return nil, Writer{}, nil, err
	}
	writer, toolNotes, err := s.writer(m)
	return m, writer, append(notes, toolNotes...), err
}

// choose is the map that was asked for, before it is compared with what is possible.
func (s side) choose(mode Mode, explicit IDMap) (IDMap, []string, error) {
	if explicit != nil {
		return explicit, nil, nil
	}
	switch mode {
	case Auto:
		return s.auto()
	case Single:
		return IDMap{{0, s.own, 1}}, nil, nil
	case Host:
		return s.host(), nil, nil
	}
	return nil, nil, &PlanError{Reason: ReasonBadRequest, Cause: fmt.Sprintf("mode %q without a %s map", mode, s.kind),
		Remedy: "use --map auto, single, host or C:H:N, or give both --uid-map and --gid-map"}
}

// host is everything that exists here, unchanged. An ordinary user may map only himself.
func (s side) host() IDMap {
	if s.facts.Privileged {
		return s.parent.identity()
	}
	return IDMap{{s.own, s.own, 1}}
}

// auto is the own id as 0 and every delegated id after it. For root, 0 is already an unprivileged id.
func (s side) auto() (IDMap, []string, error) {
	ranges, m := s.subs, IDMap(nil)
	if s.facts.Privileged {
		var err error
		if ranges, err = s.rootRanges(); err != nil {
			return nil, nil, err
		}
	} else {
		if len(s.subs) == 0 {
			return nil, nil, s.noSubIDs()
		}
		m = IDMap{{0, s.own, 1}}
	}
	if err := s.checkSources(ranges); err != nil {
		return nil, nil, err
	}
	return s.appendRanges(m, ranges)
}

// rootRanges are root's own sub-ids, if there are both of them, or else the free range for both.
func (s side) rootRanges() ([]Range, error) {
	f := s.facts
	switch {
	case len(f.SubUID) > 0 && len(f.SubGID) > 0:
		return s.subs, nil
	case f.FreeRange != nil:
		return []Range{*f.FreeRange}, nil
	}
	return nil, &PlanError{Reason: ReasonNoFreeRange,
		Cause: fmt.Sprintf("%s has no sub-ids, and no unused range of 65536 %ss was found between %d and %d; this namespace has %s",
			s.owner(), s.kind, freeMin, freeMax, listSpans(s.parent.insideSpans())),
		Remedy: "use --map host (the ids that exist here) or --map single; or, if this is inside a container, start the outer one with more ids"}
}

// appendRanges maps ranges to the ids after those of m, in order, and notes where each came from.
func (s side) appendRanges(m IDMap, ranges []Range) (IDMap, []string, error) {
	var notes []string
	next := m.Size()
	for _, r := range ranges {
		if next+uint64(r.Count) > math.MaxUint32 {
			return nil, nil, s.mapError(&MapError{Line: len(m) + 1, Reason: ReasonWrap, Extent: Extent{uint32(next), r.Start, r.Count}}, "")
		}
		m = append(m, Extent{uint32(next), r.Start, r.Count})
		inside := spanOf(uint32(next), r.Count)
		notes = append(notes, fmt.Sprintf("%ss %s inside are %s", s.kind, inside, r))
		next = inside.end
	}
	return m, notes, nil
}

// checkSources refuses ranges that share an id with each other or with the own one, naming where both came from.
func (s side) checkSources(ranges []Range) error {
	var before []Range
	if !s.facts.Privileged {
		before = []Range{{s.own, 1, "own " + s.kind}}
	}
	for _, r := range ranges {
		for _, b := range before {
			if r.span().overlaps(b.span()) {
				return &PlanError{Reason: ReasonOverlap,
					Cause:  fmt.Sprintf("%ss %s overlap %s: %s are in both", s.kind, r, b, r.span().intersect(b.span())),
					Remedy: "as root: correct " + s.file + ", so that no id is delegated twice; or " + offerSingle}
			}
		}
		before = append(before, r)
	}
	return nil
}

// check compares a map with what the kernel and newuidmap allow, and splits it at our own namespace's extents.
func (s side) check(m IDMap) (IDMap, error) {
	if err := m.Validate(); err != nil {
		return nil, s.mapError(err, "")
	}
	if err := s.delegated(m); err != nil {
		return nil, err
	}
	split, err := m.SplitAt(s.parent)
	if err != nil {
		return nil, s.notInParent(err)
	}
	if err := split.Validate(); err != nil {
		return nil, s.mapError(err, "; this is after splitting at the extents of this namespace")
	}
	return split, nil
}

// delegated checks that an ordinary user may map every line: a line is his own id alone, or lies in his sub-ids.
// newuidmap takes no line that joins the two.
func (s side) delegated(m IDMap) error {
	if s.facts.Privileged {
		return nil
	}
	subs := make(IDMap, len(s.subs))
	for i, r := range s.subs {
		subs[i] = Extent{Inside: r.Start, Length: r.Count}
	}
	for i, e := range m {
		if e.Length == 1 && e.Outside == s.own {
			continue
		}
		if len(subs) == 0 {
			return s.noSubIDs().atLine(s.kind, i+1, e)
		}
		var gap *NotInParentError
		if _, err := (IDMap{e}).SplitAt(subs); errors.As(err, &gap) {
			return s.notDelegated(i+1, e, gap)
		}
	}
	return nil
}

func (e *PlanError) atLine(kind string, line int, extent Extent) *PlanError {
	e.Cause = fmt.Sprintf("%s map line %d (%s): %s", kind, line, extent, e.Cause)
	return e
}

func (s side) notDelegated(line int, e Extent, gap *NotInParentError) error {
	text := ""
	for _, miss := range gap.Missing {
		text += ", " + spanOf(miss.Start, miss.Count).String()
	}
	mine := fmt.Sprintf("%d (own %s, on a line of its own with length 1)", s.own, s.kind)
	for _, r := range s.subs {
		mine += ", " + r.String()
	}
	return (&PlanError{Reason: ReasonNotOurs,
		Cause:  fmt.Sprintf("%ss %s are not delegated to %s, who may map %s", s.kind, text[2:], s.owner(), mine),
		Remedy: "use --map auto, which maps all that is delegated; or have root extend " + s.file + " (usermod(8))",
	}).atLine(s.kind, line, e)
}
