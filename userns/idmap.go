package userns

import (
	"strconv"
	"strings"
)

// Extent is one line of /proc/PID/uid_map: "ID-inside-ns ID-outside-ns length" (user_namespaces(7)). The fields are
// ids and a count of ids.
type Extent struct{ Inside, Outside, Length uint32 }

// String is the extent as the flags spell it, C:H:N.
func (e Extent) String() string {
	return decimal(e.Inside) + ":" + decimal(e.Outside) + ":" + decimal(e.Length)
}

// MarshalText is [Extent.String], which makes saved facts readable.
func (e Extent) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText is [ParseExtent].
func (e *Extent) UnmarshalText(text []byte) error {
	parsed, err := ParseExtent(string(text))
	if err == nil {
		*e = parsed
	}
	return err
}

// insideSpan and outsideSpan are the two sides of the extent.
func (e Extent) insideSpan() span  { return spanOf(e.Inside, e.Length) }
func (e Extent) outsideSpan() span { return spanOf(e.Outside, e.Length) }

// IDMap is a whole uid_map or gid_map, in the order of its lines.
type IDMap []Extent

// String is exactly the bytes to write to uid_map or gid_map, in one write(2) ("0 1000 1\n1 100000 65536\n").
func (m IDMap) String() string {
	var text []byte
	for _, e := range m {
		text = e.appendLine(text)
	}
	return string(text)
}

func (e Extent) appendLine(text []byte) []byte {
	text = append(strconv.AppendUint(text, uint64(e.Inside), 10), ' ')
	text = append(strconv.AppendUint(text, uint64(e.Outside), 10), ' ')
	return append(strconv.AppendUint(text, uint64(e.Length), 10), '\n')
}

// Fields are the map's numbers in order, the way newuidmap(1) and newgidmap(1) want them after the pid.
func (m IDMap) Fields() []string { return strings.Fields(m.String()) }

// Size is the number of ids in the map.
func (m IDMap) Size() uint64 {
	var n uint64
	for _, e := range m {
		n += uint64(e.Length)
	}
	return n
}

// ToOutside translates an id of the new namespace into the parent's; false if it isn't mapped.
func (m IDMap) ToOutside(inside uint32) (uint32, bool) {
	for _, e := range m {
		if e.insideSpan().has(inside) {
			return e.Outside + (inside - e.Inside), true
		}
	}
	return 0, false
}

// ToInside translates an id of the parent into the new namespace's; false if it isn't mapped, and then it shows
// inside as the overflow id.
func (m IDMap) ToInside(outside uint32) (uint32, bool) {
	for _, e := range m {
		if e.outsideSpan().has(outside) {
			return e.Inside + (outside - e.Outside), true
		}
	}
	return 0, false
}

// isSingle reports whether m is one line that maps the one id outside: what the kernel lets anybody write.
func (m IDMap) isSingle(outside uint32) bool {
	return len(m) == 1 && m[0].Length == 1 && m[0].Outside == outside
}

// identity maps everything that exists in a namespace whose map is m to itself.
func (m IDMap) identity() IDMap {
	same := make(IDMap, len(m))
	for i, e := range m {
		same[i] = Extent{Inside: e.Inside, Outside: e.Inside, Length: e.Length}
	}
	return same
}

func decimal(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
