package cgroup

import (
	"strconv"
	"strings"
	"time"
)

// Stats are what the container used so far. A part is nil when its controller
// isn't enabled for the container's cgroup or the kernel doesn't tell.
type Stats struct {
	Memory *MemoryStats `json:"memory,omitempty"`
	CPU    *CPUStats    `json:"cpu,omitempty"`
	Pids   *PidsStats   `json:"pids,omitempty"`
	IO     []IOStats    `json:"io,omitempty"`

	MemoryPressure *Pressure `json:"memory_pressure,omitempty"`
	CPUPressure    *Pressure `json:"cpu_pressure,omitempty"`
	IOPressure     *Pressure `json:"io_pressure,omitempty"`
}

// MemoryStats are in bytes.
type MemoryStats struct {
	Current uint64            `json:"current"`        // memory.current
	Peak    uint64            `json:"peak"`           // memory.peak, 5.19; 0 is unknown
	Swap    uint64            `json:"swap"`           // memory.swap.current; of v1 memory and swap together, less Current
	Detail  map[string]uint64 `json:"stat,omitempty"` // memory.stat: anon, file, …
}

// CPUStats are of cpu.stat. Usage, User and System are there without the controller.
type CPUStats struct {
	Usage     time.Duration `json:"usage_ns"`
	User      time.Duration `json:"user_ns"`
	System    time.Duration `json:"system_ns"`
	Periods   uint64        `json:"nr_periods"`
	Throttled uint64        `json:"nr_throttled"` // periods in which the quota was used up
	Stopped   time.Duration `json:"throttled_ns"` // for how long, summed over the CPUs
}

// PidsStats count threads as well as processes.
type PidsStats struct {
	Current uint64 `json:"current"`
	Peak    uint64 `json:"peak"` // pids.peak, 6.1
	Refused uint64 `json:"refused"`
}

// IOStats are of io.stat, for one device.
type IOStats struct {
	Device     string `json:"device"` // "8:0"
	ReadBytes  uint64 `json:"rbytes"`
	WriteBytes uint64 `json:"wbytes"`
	Reads      uint64 `json:"rios"`
	Writes     uint64 `json:"wios"`
}

// Pressure is how long processes waited for a resource (PSI, 5.2): some of them,
// and all of them. The averages are in percent.
type Pressure struct {
	Some PressureLine `json:"some"`
	Full PressureLine `json:"full"`
}

// PressureLine is a line of a .pressure file.
type PressureLine struct {
	Avg10  float64       `json:"avg10"`
	Avg60  float64       `json:"avg60"`
	Avg300 float64       `json:"avg300"`
	Total  time.Duration `json:"total_ns"`
}

// Stats reads them now, from the container's folders.
func (g *Group) Stats() Stats {
	var s Stats
	for _, f := range g.Folders() {
		if f.Version == 2 {
			s.readV2(f.Path + "/")
		} else {
			s.readV1(f.Path + "/")
		}
	}
	return s
}

const usec = uint64(time.Microsecond)

func (s *Stats) readV2(dir string) {
	if firstWord(dir+"memory.current") != "" {
		s.Memory = &MemoryStats{value(dir + "memory.current"), value(dir + "memory.peak"), value(dir + "memory.swap.current"), keyed(dir + "memory.stat")}
	}
	if k := keyed(dir + "cpu.stat"); k != nil {
		s.CPU = &CPUStats{time.Duration(k["usage_usec"] * usec), time.Duration(k["user_usec"] * usec), time.Duration(k["system_usec"] * usec),
			k["nr_periods"], k["nr_throttled"], time.Duration(k["throttled_usec"] * usec)}
	}
	s.readPids(dir)
	if text, err := read(dir + "io.stat"); err == nil {
		s.IO = parseIOStat(text)
	}
	s.MemoryPressure, s.CPUPressure, s.IOPressure = pressure(dir+"memory.pressure"), pressure(dir+"cpu.pressure"), pressure(dir+"io.pressure")
}

func (s *Stats) readPids(dir string) {
	if firstWord(dir+"pids.current") != "" {
		s.Pids = &PidsStats{value(dir + "pids.current"), value(dir + "pids.peak"), keyed(dir + "pids.events")["max"]}
	}
}

// readV1 adds one hierarchy's. Times of cpu.stat and cpuacct.usage are in ns,
// those of cpuacct.stat in ticks of 10 ms (USER_HZ).
func (s *Stats) readV1(dir string) {
	if firstWord(dir+"memory.usage_in_bytes") != "" {
		current := value(dir + "memory.usage_in_bytes")
		swap := value(dir+"memory.memsw.usage_in_bytes") - current
		if swap > maxBytes {
			swap = 0 // no such file, or read at two moments
		}
		s.Memory = &MemoryStats{current, value(dir + "memory.max_usage_in_bytes"), swap, keyed(dir + "memory.stat")}
	}
	if firstWord(dir+"cpu.shares") != "" {
		k, c := keyed(dir+"cpu.stat"), s.cpu()
		c.Periods, c.Throttled, c.Stopped = k["nr_periods"], k["nr_throttled"], time.Duration(k["throttled_time"])
	}
	if k := keyed(dir + "cpuacct.stat"); k != nil {
		c := s.cpu()
		c.Usage, c.User, c.System = time.Duration(value(dir+"cpuacct.usage")), time.Duration(k["user"])*tick, time.Duration(k["system"])*tick
	}
	s.readPids(dir)
}

const tick = 10 * time.Millisecond

func (s *Stats) cpu() *CPUStats {
	if s.CPU == nil {
		s.CPU = &CPUStats{}
	}
	return s.CPU
}

// parseIOStat reads "8:0 rbytes=1 wbytes=2 rios=3 wios=4 …".
func parseIOStat(text string) []IOStats {
	var list []IOStats
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue // a device without any
		}
		s := IOStats{Device: f[0]}
		for _, pair := range f[1:] {
			key, number, _ := strings.Cut(pair, "=")
			n, _ := strconv.ParseUint(number, 10, 64)
			switch key {
			case "rbytes":
				s.ReadBytes = n
			case "wbytes":
				s.WriteBytes = n
			case "rios":
				s.Reads = n
			case "wios":
				s.Writes = n
			}
		}
		list = append(list, s)
	}
	return list
}

func pressure(file string) *Pressure {
	text, err := read(file)
	if err != nil {
		return nil // off (psi=0: EOPNOTSUPP), or not built
	}
	return parsePressure(text)
}

// parsePressure reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" (µs).
func parsePressure(text string) *Pressure {
	var p Pressure
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		l := &p.Some
		if f[0] == "full" {
			l = &p.Full
		}
		for _, pair := range f[1:] {
			key, number, _ := strings.Cut(pair, "=")
			x, _ := strconv.ParseFloat(number, 64)
			switch key {
			case "avg10":
				l.Avg10 = x
			case "avg60":
				l.Avg60 = x
			case "avg300":
				l.Avg300 = x
			case "total":
				l.Total = time.Duration(x * float64(usec))
			}
		}
	}
	return &p
}
