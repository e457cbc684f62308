package userns

import "strings"

// span is the ids start <= id < end. The ends are 64 bits wide because a span may end at 1<<32.
type span struct{ start, end uint64 }

func spanOf(start, count uint32) span {
	return span{uint64(start), uint64(start) + uint64(count)}
}

func (s span) has(id uint32) bool    { return s.start <= uint64(id) && uint64(id) < s.end }
func (s span) overlaps(o span) bool  { return s.start < o.end && o.start < s.end }
func (s span) intersect(o span) span { return span{max(s.start, o.start), min(s.end, o.end)} }
func (s span) String() string {
	first, last := decimal(uint32(s.start)), decimal(uint32(s.end-1))
	if first == last {
		return first
	}
	return first + "-" + last
}

// listSpans is "0-999, 100000-165535", or "no ids".
func listSpans(spans []span) string {
	if len(spans) == 0 {
		return "no ids"
	}
	var texts []string
	for i, s := range spans {
		if i == 16 { // an error is for people; the map itself is in /proc/self/uid_map
			texts = append(texts, "…")
			break
		}
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", ")
}

// insideSpans are the ids that exist in a namespace whose map is m.
func (m IDMap) insideSpans() []span {
	spans := make([]span, len(m))
	for i, e := range m {
		spans[i] = e.insideSpan()
	}
	return spans
}
