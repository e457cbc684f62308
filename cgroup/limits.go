package cgroup

import (
	"slices"
	"strings"
)

// A Setting is one write to an interface file of a cgroup.
type Setting struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// A Limit is one limit that is asked for, in the forms that both versions of
// cgroups have for it. A version without a form can't have the limit in force.
type Limit struct {
	Key   string    `json:"key"`          // what is limited, by v2's name where it has one: "memory.max"
	Asked string    `json:"asked"`        // by whom: "--memory 64m", "linux.resources.memory.limit 67108864"
	V2    []Setting `json:"v2,omitempty"` // in order
	V1    []Setting `json:"v1,omitempty"`
}

// Limits is what is asked for, each Key once.
type Limits []Limit

// with replaces the limit of the same key, or adds it.
func (l Limits) with(limit Limit) Limits {
	if i := l.index(limit.Key); i >= 0 {
		l[i] = limit
		return l
	}
	return append(l, limit)
}

func (l Limits) index(key string) int {
	return slices.IndexFunc(l, func(x Limit) bool { return x.Key == key })
}

// Over gives l with those of other, which win where both have the key: flags
// over a bundle.
func (l Limits) Over(other Limits) Limits {
	merged := slices.Clone(l)
	for _, limit := range other {
		merged = merged.with(limit)
	}
	return merged
}

// Controller is the kernel's name of what has to be enabled for the limit in
// this version: "io" of v2 is "blkio" of v1. "" is the cgroup core itself
// (cgroup.max.depth), or a version without a form of the limit.
func (l Limit) Controller(version int) string {
	settings := l.settings(version)
	if len(settings) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(settings[0].File, ".")
	if name == "cgroup" {
		return ""
	}
	return name
}

func (l Limit) settings(version int) []Setting {
	if version == 1 {
		return l.V1
	}
	return l.V2
}

// Controllers are those that the limits need in this version, sorted.
func (l Limits) Controllers(version int) []string {
	var list []string
	for _, limit := range l {
		if c := limit.Controller(version); c != "" {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Files are the interface files that the limits write, of both versions.
func (l Limits) Files() []string {
	var list []string
	for _, limit := range l {
		for _, s := range slices.Concat(limit.V2, limit.V1) {
			list = append(list, s.File)
		}
	}
	if slices.ContainsFunc(list, func(f string) bool { return strings.HasPrefix(f, "cpuset.") }) {
		list = append(list, "cpuset.cpus", "cpuset.mems") // v1 wants both
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// one is a limit whose v2 form is one file.
func one(key, asked, value string, v1 ...Setting) Limit {
	return Limit{Key: key, Asked: asked, V2: []Setting{{key, value}}, V1: v1}
}
