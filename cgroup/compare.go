package cgroup

import (
	"cmp"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// likeness of what was written and what is read back.
type likeness int

const (
	different likeness = iota
	rounded            // less than a page less
	same
)

// compare knows how the kernel prints what was written to a file.
func compare(file, want, read string) likeness {
	name := path.Base(file)
	switch {
	case want == read, strings.HasPrefix(name, "cpuset.") && sameList(want, read):
		return same
	case name == "memory.oom_control": // v1: the first line is the switch
		line, _, _ := strings.Cut(read, "\n")
		return when(line == "oom_kill_disable "+want)
	case strings.Contains(want, "=") || strings.HasPrefix(name, "blkio.") || name == "io.weight" || strings.Contains(want, ":"):
		return when(hasLine(read, want))
	}
	a, b := number(want), number(read)
	switch {
	case !strings.HasPrefix(name, "memory.") && !strings.HasPrefix(name, "hugetlb."):
		return different
	case unlimited(a) && unlimited(b):
		return same
	case b == a-a%uint64(os.Getpagesize()):
		return rounded
	}
	return different
}

func when(same bool) likeness {
	if same {
		return 2
	}
	return different
}

// hasLine looks for the line of the same device that has every part of want:
// "8:0 rbps=1048576" reads as "8:0 rbps=1048576 wbps=max riops=max wiops=max".
func hasLine(text, want string) bool {
	parts := strings.Fields(want)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 0 && len(parts) > 0 && f[0] == parts[0] && !slices.ContainsFunc(parts, func(p string) bool { return !contains(f, p) }) {
			return true
		}
	}
	return false
}

// number reads a value: "max", "-1" and what isn't one are no limit.
func number(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return ^uint64(0)
	}
	return n
}

// unlimited: v1 reads no limit as the greatest number of whole pages.
func unlimited(n uint64) bool { return n >= maxBytes>>16<<16 }

// limiting tells whether a value of a folder that is passed by limits anything.
func limiting(file, value string) bool {
	switch {
	case file == "cpu.max":
		return !strings.HasPrefix(value, Max)
	case strings.HasSuffix(file, ".max"), file == "memory.high", strings.HasSuffix(file, "limit_in_bytes"), file == "cpu.cfs_quota_us":
		return !unlimited(number(value))
	}
	return false
}

// protects: what is kept for a cgroup is no more than what is kept for the one it
// is in (cgroup-v2(rst), memory.min), so 0 above leaves nothing of it.
func protects(file string) bool { return file == "memory.low" || file == "memory.min" }

// tighter finds the outer limit of the same kind that is reached before a
// setting, the tightest one; "" if there is none.
func tighter(s Setting, with Limits, version int, above []Folder) string {
	best, text := measure(s.File, s.Value, valuesOf(with, version)), ""
	for _, f := range above {
		value, ok := f.Values[s.File]
		if !ok || !limiting(s.File, value) && !protects(s.File) {
			continue
		}
		if m := measure(s.File, value, f.Values); m < best {
			best, text = m, f.Path+"/"+s.File+" "+value
		}
	}
	return text
}

func valuesOf(l Limits, version int) map[string]string {
	values := map[string]string{}
	for _, limit := range l {
		for _, s := range limit.settings(version) {
			values[s.File] = s.Value
		}
	}
	return values
}

// measure makes values of a kind comparable: a bandwidth is its quota for a
// period, in CPUs; anything else that has no number is no limit.
func measure(file, value string, beside map[string]string) float64 {
	quota, period := value, ""
	switch file {
	case "cpu.max":
		quota, period, _ = strings.Cut(value, " ")
	case "cpu.cfs_quota_us":
		period = beside["cpu.cfs_period_us"]
	default:
		return float64(number(value))
	}
	p := number(period)
	if p == 0 || unlimited(p) {
		p = PeriodUSec
	}
	return float64(number(quota)) / float64(p)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
