package userns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Missing is a run of ids that a line of a map wants and that don't exist in the parent. Line counts from 1.
type Missing struct {
	Line         int
	Start, Count uint32
}

// NotInParentError is a map with outside ids that the parent namespace doesn't have: the kernel's EPERM.
type NotInParentError struct {
	Missing []Missing
	Parent  IDMap
}

func (e *NotInParentError) Error() string { return "userns: id map " + e.detail() }

func (e *NotInParentError) detail() string {
	return e.missing() + " don't exist in this namespace, which has " + listSpans(e.Parent.insideSpans())
}

// missing is "line 1: ids 5-9; line 2: ids 7".
func (e *NotInParentError) missing() string {
	var texts []string
	for i, miss := range e.Missing {
		if i == 16 {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, fmt.Sprintf("line %d: ids %s", miss.Line, spanOf(miss.Start, miss.Count)))
	}
	return strings.Join(texts, "; ")
}

// SplitAt cuts every extent of m where it crosses a boundary of parent, the map of our own namespace
// (/proc/self/uid_map). The outside ids of m are ids of our namespace, so the boundaries are those of parent's
// *inside* ranges. The kernel maps a line as a whole or refuses it with EPERM (map_id_range_down). An id that the
// parent lacks gives a *NotInParentError. The result is a map of the same ids, in the same order.
func (m IDMap) SplitAt(parent IDMap) (IDMap, error) {
	sorted := slices.SortedFunc(slices.Values(parent), func(a, b Extent) int { return cmp.Compare(a.Inside, b.Inside) })
	var pieces IDMap
	var missing []Missing
	for i, e := range m {
		found, gaps := e.split(sorted)
		pieces = append(pieces, found...)
		for _, gap := range gaps {
			missing = append(missing, Missing{i + 1, uint32(gap.start), uint32(gap.end - gap.start)})
		}
	}
	if missing != nil {
		return nil, &NotInParentError{missing, sorted}
	}
	return pieces, nil
}

// split cuts one extent at the extents of sorted, which ascend. What lies in none of them is returned as gaps.
func (e Extent) split(sorted IDMap) (pieces IDMap, gaps []span) {
	whole := e.outsideSpan()
	at := whole.start
	for _, p := range sorted {
		common := span{at, whole.end}.intersect(p.insideSpan())
		if common.start >= common.end {
			continue
		}
		if common.start > at {
			gaps = append(gaps, span{at, common.start})
		}
		pieces = append(pieces, e.cut(common))
		at = common.end
	}
	if at < whole.end {
		gaps = append(gaps, span{at, whole.end})
	}
	return pieces, gaps
}

// cut is the part of e whose outside ids are s.
func (e Extent) cut(s span) Extent {
	offset := uint32(s.start) - e.Outside
	return Extent{e.Inside + offset, uint32(s.start), uint32(s.end - s.start)}
}
