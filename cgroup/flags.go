package cgroup

import (
	"strconv"
	"strings"
)

// Flags are limits as people ask for them on a command line. An empty field
// asks for nothing.
type Flags struct {
	Memory     string   // --memory: memory.max
	MemorySwap string   // --memory-swap: memory and swap together, as Docker counts; "max"
	MemoryHigh string   // --memory-high
	MemoryLow  string   // --memory-low
	MemoryMin  string   // --memory-min
	OOMGroup   bool     // --oom-group: an OOM kill ends every process of the container
	CPUs       string   // --cpus 0.5
	CPUWeight  string   // --cpu-weight 1 to 10000; 100 is the default
	CPUSetCPUs string   // --cpuset-cpus 0-3,7
	CPUSetMems string   // --cpuset-mems
	Pids       string   // --pids-limit
	Conf       []string // --cgroup-conf FILE=VALUE, a cgroup v2 file
}

// Limits checks the flags. Every fault is a *ValueError that names its flag.
func (f Flags) Limits() (Limits, error) {
	p := &flagParser{}
	p.memory(f)
	p.cpu(f)
	if f.Pids != "" {
		p.add(pidsLimit("--pids-limit", f.Pids))
	}
	for _, conf := range f.Conf {
		p.conf(conf)
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.limits, nil
}

type flagParser struct {
	limits Limits
	err    error // the first
}

func (p *flagParser) add(l Limit, err error) {
	if p.err == nil {
		p.err = err
	}
	if err == nil {
		p.limits = p.limits.with(l)
	}
}

func (p *flagParser) memory(f Flags) {
	for _, x := range []struct {
		flag, text, key string
		v1              string // file; "" has no such limit
	}{
		{"--memory", f.Memory, "memory.max", "memory.limit_in_bytes"},
		{"--memory-high", f.MemoryHigh, "memory.high", ""},
		{"--memory-low", f.MemoryLow, "memory.low", ""},
		{"--memory-min", f.MemoryMin, "memory.min", ""},
	} {
		if x.text != "" {
			p.add(memoryLimit(x.flag, x.text, x.key, x.v1))
		}
	}
	if f.MemorySwap != "" {
		p.add(swapFlag(f))
	}
	if f.OOMGroup {
		p.add(one("memory.oom.group", "--oom-group", "1"), nil)
	}
}

func memoryLimit(flag, text, key, v1 string) (Limit, error) {
	n, err := ParseSize(flag, text)
	if err != nil {
		return Limit{}, err
	}
	l := one(key, flag+" "+text, strconv.FormatUint(n, 10))
	if v1 != "" {
		l.V1 = []Setting{{v1, l.V2[0].Value}}
	}
	return l, nil
}

// swapFlag: the flag counts memory and swap together, as cgroup v1 does.
func swapFlag(f Flags) (Limit, error) {
	const flag = "--memory-swap"
	asked := flag + " " + f.MemorySwap
	if f.MemorySwap == Max || f.MemorySwap == "-1" {
		return swapLimit(asked, Max, Max), nil
	}
	total, err := ParseSize(flag, f.MemorySwap)
	if err != nil {
		return Limit{}, err
	}
	if f.Memory == "" {
		return Limit{}, &ValueError{flag, f.MemorySwap, "it counts memory and swap together, and no --memory was given", "give --memory too"}
	}
	memory, err := ParseSize("--memory", f.Memory)
	if err != nil {
		return Limit{}, err
	}
	if total < memory {
		return Limit{}, &ValueError{flag, f.MemorySwap, "it counts memory and swap together, and is less than --memory " + f.Memory,
			"the same value as --memory allows no swap"}
	}
	return swapLimit(asked, strconv.FormatUint(total-memory, 10), strconv.FormatUint(total, 10)), nil
}

// swapLimit takes swap alone, and memory and swap together.
func swapLimit(asked, swap, both string) Limit {
	return one("memory.swap.max", asked, swap, Setting{"memory.memsw.limit_in_bytes", v1Max(both)})
}

// v1Max is how v1 writes no limit.
func v1Max(value string) string {
	if value == Max {
		return "-1"
	}
	return value
}

func (p *flagParser) cpu(f Flags) {
	if f.CPUs != "" {
		quota, err := ParseCPUs("--cpus", f.CPUs)
		p.add(cpuMax("--cpus "+f.CPUs, int64(quota), PeriodUSec), err)
	}
	if f.CPUWeight != "" {
		weight, err := parseCount("--cpu-weight", f.CPUWeight, 1, 10000)
		p.add(one("cpu.weight", "--cpu-weight "+f.CPUWeight, strconv.FormatUint(weight, 10),
			Setting{"cpu.shares", strconv.FormatUint(WeightToShares(weight), 10)}), err)
	}
	for _, x := range []struct{ flag, text, key string }{
		{"--cpuset-cpus", f.CPUSetCPUs, "cpuset.cpus"}, {"--cpuset-mems", f.CPUSetMems, "cpuset.mems"},
	} {
		if x.text != "" {
			p.add(cpusetLimit(x.flag, x.text, x.key))
		}
	}
}

// cpuMax takes µs. A quota below 0 is no limit.
func cpuMax(asked string, quota int64, period uint64) Limit {
	p, q := strconv.FormatUint(period, 10), strconv.FormatInt(quota, 10)
	v2 := q
	if quota < 0 {
		q, v2 = "-1", Max
	}
	return one("cpu.max", asked, v2+" "+p, Setting{"cpu.cfs_period_us", p}, Setting{"cpu.cfs_quota_us", q})
}

func cpusetLimit(what, text, key string) (Limit, error) {
	if _, ok := parseList(text); !ok {
		return Limit{}, &ValueError{what, text, "this is no list of numbers", `write "0-3,7"; see cpuset(7)`}
	}
	value := strings.TrimSpace(text)
	return one(key, what+" "+text, value, Setting{key, value}), nil
}

func pidsLimit(what, text string) (Limit, error) {
	value := strings.TrimSpace(text)
	if value == "-1" || value == Max {
		value = Max
	} else if n, err := parseCount(what, text, 1, 1<<22); err != nil { // PID_MAX_LIMIT
		return Limit{}, err
	} else {
		value = strconv.FormatUint(n, 10)
	}
	return one("pids.max", what+" "+text, value, Setting{"pids.max", value}), nil
}

func (p *flagParser) conf(text string) {
	file, value, ok := strings.Cut(text, "=")
	if !ok {
		p.add(Limit{}, &ValueError{"--cgroup-conf", text, "there is no = in it", "write --cgroup-conf memory.high=32M"})
		return
	}
	l, err := unifiedLimit("--cgroup-conf", file, value)
	if i := p.limits.index(l.Key); err == nil && i >= 0 {
		err = &ValueError{"--cgroup-conf", text, "the same limit is asked for by " + p.limits[i].Asked, "leave one of them out"}
	}
	p.add(l, err)
}
