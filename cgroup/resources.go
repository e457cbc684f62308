package cgroup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// FromResources reads linux.resources of a runtime-spec, all but devices, which
// are no limit. A field that no kernel can put in force any more is a
// *ValueError with its JSON path. notes tell what is taken as not asked for: 0
// is how engines write an unset number, and crun and runc read it so.
func FromResources(r *specs.LinuxResources) (limits Limits, notes []string, err error) {
	if r == nil {
		return nil, nil, nil
	}
	p := &specParser{}
	p.memory(r.Memory)
	p.cpu(r.CPU)
	if r.Pids != nil && r.Pids.Limit != nil {
		p.pids(*r.Pids.Limit)
	}
	p.blockIO(r.BlockIO)
	p.hugepages(r.HugepageLimits)
	if n := r.Network; n != nil && (n.ClassID != nil || len(n.Priorities) > 0) {
		p.refuse("network", "", "network classes and priorities are cgroup v1's net_cls and net_prio, which cgroup v2 replaced by tc(8) and nftables", "remove it from config.json")
	}
	for _, device := range slices.Sorted(maps.Keys(r.Rdma)) {
		p.rdma(device, r.Rdma[device])
	}
	for _, file := range slices.Sorted(maps.Keys(r.Unified)) {
		p.unified(file, r.Unified[file])
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return p.limits, p.notes, nil
}

type specParser struct {
	flagParser
	notes []string
}

func (p *specParser) refuse(path, value, cause, remedy string) {
	p.add(Limit{}, &ValueError{"linux.resources." + path, value, cause, remedy})
}

func (p *specParser) unset(path string) {
	p.notes = append(p.notes, "linux.resources."+path+" is 0, which asks for nothing")
}

// bytes reads an amount, of which -1 is no limit. ok is false when it asks for
// nothing or is refused.
func (p *specParser) bytes(path string, n *int64) (value string, ok bool) {
	switch {
	case n == nil:
		return "", false
	case *n == 0:
		p.unset(path)
		return "", false
	case *n == -1:
		return Max, true
	case *n < 0:
		p.refuse(path, strconv.FormatInt(*n, 10), "less than nothing", "-1 is no limit")
		return "", false
	}
	return strconv.FormatInt(*n, 10), true
}

// unified: an entry wins over the field that means the same, as runc and crun have it.
func (p *specParser) unified(file, value string) {
	l, err := unifiedLimit("linux.resources.unified", file, value)
	if i := p.limits.index(l.Key); err == nil && i >= 0 {
		p.notes = append(p.notes, l.Asked+" wins over "+p.limits[i].Asked)
	}
	p.add(l, err)
}

func (p *specParser) memory(m *specs.LinuxMemory) {
	if m == nil {
		return
	}
	const path = "linux.resources.memory."
	limit, limited := p.bytes("memory.limit", m.Limit)
	if limited {
		p.add(one("memory.max", path+"limit "+limit, limit, Setting{"memory.limit_in_bytes", v1Max(limit)}), nil)
	}
	if low, ok := p.bytes("memory.reservation", m.Reservation); ok {
		p.add(one("memory.low", path+"reservation "+low, low, Setting{"memory.soft_limit_in_bytes", v1Max(low)}), nil)
	}
	p.swap(m, limit)
	for _, x := range []struct {
		name string
		n    *int64
	}{
		//lint:ignore SA1019 a deprecated field is refused, not dropped
		{"kernel", m.Kernel},
		{"kernelTCP", m.KernelTCP},
	} {
		if x.n != nil && *x.n > 0 {
			p.refuse("memory."+x.name, strconv.FormatInt(*x.n, 10), "kernels since 5.4 have no limit of their own for kernel memory; memory.limit counts it too", "remove it from config.json")
		}
	}
	if m.Swappiness != nil {
		value := strconv.FormatUint(*m.Swappiness, 10)
		p.add(Limit{Key: "memory.swappiness", Asked: path + "swappiness " + value, V1: []Setting{{"memory.swappiness", value}}}, nil)
	}
	if m.DisableOOMKiller != nil && *m.DisableOOMKiller {
		p.add(Limit{Key: "memory.oom_control", Asked: path + "disableOOMKiller true", V1: []Setting{{"memory.oom_control", "1"}}}, nil)
	}
}

// swap counts memory and swap together; v2 wants swap alone (crun.1.md:
// y = x - memory_limit).
func (p *specParser) swap(m *specs.LinuxMemory, limit string) {
	both, ok := p.bytes("memory.swap", m.Swap)
	asked := "linux.resources.memory.swap " + both
	switch {
	case !ok && limit == Max && (m.Swap == nil || *m.Swap == 0):
		p.add(swapLimit("linux.resources.memory.limit -1", Max, Max), nil) // runc: both unlimited
	case !ok:
	case both == Max || limit == Max:
		p.add(swapLimit(asked, both, both), nil)
	case limit == "":
		p.refuse("memory.swap", both, "it counts memory and swap together, and there is no memory.limit", "set memory.limit too")
	case *m.Swap < *m.Limit:
		p.refuse("memory.swap", both, "it counts memory and swap together, and is less than memory.limit "+limit, "the same value as memory.limit allows no swap")
	default:
		p.add(swapLimit(asked, strconv.FormatInt(*m.Swap-*m.Limit, 10), both), nil)
	}
}

func (p *specParser) cpu(c *specs.LinuxCPU) {
	if c == nil {
		return
	}
	const path = "linux.resources.cpu."
	if c.Shares != nil && *c.Shares > 0 {
		shares := strconv.FormatUint(*c.Shares, 10)
		p.add(one("cpu.weight", path+"shares "+shares, strconv.FormatUint(SharesToWeight(*c.Shares), 10), Setting{"cpu.shares", shares}), nil)
	} else if c.Shares != nil {
		p.unset("cpu.shares")
	}
	p.quota(c)
	if c.Burst != nil {
		burst := strconv.FormatUint(*c.Burst, 10)
		p.add(one("cpu.max.burst", path+"burst "+burst, burst, Setting{"cpu.cfs_burst_us", burst}), nil)
	}
	if c.Idle != nil {
		idle := strconv.FormatInt(*c.Idle, 10)
		p.add(one("cpu.idle", path+"idle "+idle, idle, Setting{"cpu.idle", idle}), nil)
	}
	if c.Cpus != "" {
		p.add(cpusetLimit(path+"cpus", c.Cpus, "cpuset.cpus"))
	}
	if c.Mems != "" {
		p.add(cpusetLimit(path+"mems", c.Mems, "cpuset.mems"))
	}
	p.realtime(c)
}

// quota writes period and quota together, as v2 has them in one file.
func (p *specParser) quota(c *specs.LinuxCPU) {
	quota, period := int64(-1), uint64(PeriodUSec)
	switch {
	case c.Quota != nil && *c.Quota != 0:
		quota = *c.Quota
	case c.Period == nil || *c.Period == 0:
		if c.Quota != nil {
			p.unset("cpu.quota")
		}
		return
	}
	if c.Period != nil && *c.Period != 0 {
		period = *c.Period
	}
	p.add(cpuMax(fmt.Sprintf("linux.resources.cpu.quota %d, period %d", quota, period), quota, period), nil)
}

func (p *specParser) realtime(c *specs.LinuxCPU) {
	var settings []Setting
	if c.RealtimePeriod != nil && *c.RealtimePeriod > 0 {
		settings = append(settings, Setting{"cpu.rt_period_us", strconv.FormatUint(*c.RealtimePeriod, 10)})
	}
	if c.RealtimeRuntime != nil && *c.RealtimeRuntime != 0 {
		settings = append(settings, Setting{"cpu.rt_runtime_us", strconv.FormatInt(*c.RealtimeRuntime, 10)})
	}
	if settings != nil {
		p.add(Limit{Key: "cpu.rt_runtime_us", Asked: "linux.resources.cpu.realtimeRuntime, realtimePeriod", V1: settings}, nil)
	}
}

// pids: runc writes 1 for 0, as nothing can be started in it either way.
func (p *specParser) pids(n int64) {
	text := strconv.FormatInt(n, 10)
	switch {
	case n < 0:
		text = "-1"
	case n == 0:
		text = "1"
		p.notes = append(p.notes, "linux.resources.pids.limit is 0, which is written as 1, as runc does")
	}
	p.add(pidsLimit("linux.resources.pids.limit", text))
}
