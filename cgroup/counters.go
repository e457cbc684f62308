package cgroup

import (
	"path"
	"strconv"
	"strings"
)

// MemoryEvents are how often what happened in a cgroup: memory.events, where
// its descendants' count too, or memory.events.local (5.2), where they don't. Of
// cgroup v1 there are only Max (memory.failcnt) and OOMKill (memory.oom_control, 4.13).
type MemoryEvents struct {
	Low          uint64 `json:"low"`
	High         uint64 `json:"high"`           // memory.high was exceeded
	Max          uint64 `json:"max"`            // memory.max was about to be exceeded
	OOM          uint64 `json:"oom"`            // its limit was reached and nothing could be reclaimed
	OOMKill      uint64 `json:"oom_kill"`       // processes in it that the OOM killer killed, for whatever limit
	OOMGroupKill uint64 `json:"oom_group_kill"` // 5.17
}

// Counters are what a cgroup counted at one moment. nil or 0: the kernel, or
// the controllers that are enabled, don't tell.
type Counters struct {
	Memory      *MemoryEvents `json:"memory,omitempty"`
	MemoryLocal *MemoryEvents `json:"memory_local,omitempty"`
	Limit       string        `json:"memory_max,omitempty"`  // memory.max, v1: memory.limit_in_bytes
	Peak        uint64        `json:"memory_peak,omitempty"` // bytes; v2 since 5.19
	PidsMax     uint64        `json:"pids_max,omitempty"`    // forks that pids.max refused
	PidsLimit   string        `json:"pids_limit,omitempty"`
	PidsPeak    uint64        `json:"pids_peak,omitempty"` // 6.6
	Outer       []Outer       `json:"outer,omitempty"`     // folders above that have a memory limit
}

// Outer is a folder above the container's, with a memory limit of its own.
type Outer struct {
	File  string       `json:"file"`
	Limit string       `json:"limit"`
	Local MemoryEvents `json:"local"`
}

// Counters reads them now. They must be read before Remove.
func (g *Group) Counters() Counters {
	var c Counters
	for _, f := range g.Folders() {
		if f.Version == 2 {
			c.readV2(f.Path)
		} else {
			c.readV1(f.Path)
		}
		c.readOuter(f)
	}
	return c
}

func (c *Counters) readV2(folder string) {
	if m, ok := memoryEvents(folder + "/memory.events"); ok {
		c.Memory = &m
		c.Limit = firstWord(folder + "/memory.max")
		c.Peak = value(folder + "/memory.peak")
	}
	if m, ok := memoryEvents(folder + "/memory.events.local"); ok {
		c.MemoryLocal = &m
	}
	c.readPids(folder)
}

// readV1: what fails at the limit and can't be reclaimed is an OOM; failcnt
// counts both, so that it alone doesn't tell which it was.
func (c *Counters) readV1(folder string) {
	if control := keyed(folder + "/memory.oom_control"); control != nil {
		m := MemoryEvents{Max: value(folder + "/memory.failcnt"), OOMKill: control["oom_kill"]}
		c.Memory = &m
		c.Limit = firstWord(folder + "/memory.limit_in_bytes")
		c.Peak = value(folder + "/memory.max_usage_in_bytes")
	}
	c.readPids(folder)
}

// readPids: the count is of forks that failed in the folder, for whatever limit.
func (c *Counters) readPids(folder string) {
	if events := keyed(folder + "/pids.events"); events != nil {
		c.PidsMax, c.PidsLimit, c.PidsPeak = events["max"], firstWord(folder+"/pids.max"), value(folder+"/pids.peak")
	}
}

// pidsOwn tells whether the folder's own limit can have refused a fork: it was
// reached, as far as the kernel tells.
func (c *Counters) pidsOwn() bool {
	limit, err := strconv.ParseUint(c.PidsLimit, 10, 64)
	return err == nil && (c.PidsPeak == 0 || c.PidsPeak >= limit)
}

// readOuter looks at the limits above that the plan found.
func (c *Counters) readOuter(f Planned) {
	for _, file := range f.Outer {
		o := Outer{File: file, Limit: firstWord(file)}
		dir := path.Dir(file)
		if m, ok := memoryEvents(dir + "/memory.events.local"); ok {
			o.Local = m
		} else {
			o.Local.Max = value(dir + "/memory.failcnt")
		}
		c.Outer = append(c.Outer, o)
	}
}

func memoryEvents(file string) (MemoryEvents, bool) {
	k := keyed(file)
	return MemoryEvents{k["low"], k["high"], k["max"], k["oom"], k["oom_kill"], k["oom_group_kill"]}, k != nil
}

// keyed reads a flat keyed file ("oom_kill 3"); nil when it can't be read.
func keyed(file string) map[string]uint64 {
	text, err := read(file)
	if err != nil {
		return nil
	}
	return parseKeyed(text)
}

func parseKeyed(text string) map[string]uint64 {
	m := map[string]uint64{}
	for line := range strings.Lines(text) {
		key, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil {
			m[key] = n
		}
	}
	return m
}

func firstWord(file string) string {
	if w := words(file); len(w) > 0 {
		return w[0]
	}
	return ""
}

// value reads a file with one number; 0 when there is none.
func value(file string) uint64 {
	n, _ := strconv.ParseUint(firstWord(file), 10, 64)
	return n
}
