package cgroup

import (
	"slices"
	"strconv"
	"strings"
)

// most is the largest number of a CPU or memory node that a list may name.
const most = 1 << 16

// parseList reads a list of CPUs or memory nodes as cpuset(7) has it ("0-3,7"),
// sorted and without doubles.
func parseList(text string) ([]int, bool) {
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, ranged := strings.Cut(part, "-")
		a, err := strconv.ParseUint(first, 10, 32)
		b := a
		if ranged && err == nil {
			b, err = strconv.ParseUint(last, 10, 32)
		}
		if err != nil || a > b || b >= most {
			return nil, false
		}
		for n := a; n <= b; n++ {
			list = append(list, int(n))
		}
		if len(list) > most {
			return nil, false
		}
	}
	slices.Sort(list)
	return slices.Compact(list), true
}

// sameList tells whether two lists name the same numbers.
func sameList(a, b string) bool {
	x, ok1 := parseList(a)
	y, ok2 := parseList(b)
	return ok1 && ok2 && slices.Equal(x, y)
}
