package userns

import (
	"hash/fnv"
	"slices"
	"strings"
)

// The ids that systemd-nspawn(1) picks containers from (HOST_UID_MIN and HOST_UID_MAX of systemd's "UIDs and GIDs"),
// in steps of a container's 65,536.
const (
	freeMin   = 0x00080000 // 524288
	freeMax   = 0x6fffffff // 1879048191
	freeCount = 0x00010000 // 65536
	freeSlots = (freeMax + 1 - freeMin) / freeCount
)

// findFreeRange picks 65,536 ids for a container that root starts without having sub-ids of its own, as
// systemd-nspawn --private-users=pick does: aligned, between 524288 and 1879048191, overlapping nothing in busy (ids
// of accounts and everybody's sub-ids), and existing in one piece in this namespace. It is nil if there is none.
//
// The search starts at a place hashed from /etc/machine-id, so that the same machine picks the same range each time
// and files kept in an upper layer keep their owners, while two machines that share a disk hardly pick the same. It
// follows that containers of one machine share the range unless root has sub-ids. Accounts of a directory service
// can't be listed and aren't looked at.
func findFreeRange(machineID string, busy []span, uidMap, gidMap IDMap) *Range {
	seed := fnv.New64a()
	seed.Write([]byte("wolffia.dev/userns " + strings.TrimSpace(machineID)))
	first := seed.Sum64() % freeSlots
	for i := range uint64(freeSlots) {
		start := uint32(freeMin + (first+i)%freeSlots*freeCount)
		s := spanOf(start, freeCount)
		if uidMap.hasWhole(s) && gidMap.hasWhole(s) && !slices.ContainsFunc(busy, s.overlaps) {
			return &Range{start, freeCount, "free range, picked as systemd-nspawn does"}
		}
	}
	return nil
}

// hasWhole reports whether s exists in one piece in a namespace whose map is m.
func (m IDMap) hasWhole(s span) bool {
	return slices.ContainsFunc(m, func(e Extent) bool { return e.insideSpan().intersect(s) == s })
}

// accountSpans are the ids in the third field of /etc/passwd or /etc/group.
func accountSpans(text string) []span {
	var spans []span
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		if id, err := parseID(fields[2]); err == nil {
			spans = append(spans, spanOf(id, 1))
		}
	}
	return spans
}
