package cgroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// text is limits as "memory.max=67108864 | memory.limit_in_bytes=67108864": v2 | v1.
func text(l Limits) string {
	var lines []string
	form := func(list []Setting) string {
		var parts []string
		for _, s := range list {
			parts = append(parts, s.File+"="+s.Value)
		}
		return strings.Join(parts, " ")
	}
	for _, limit := range l {
		lines = append(lines, form(limit.V2)+" | "+form(limit.V1))
	}
	return strings.Join(lines, "\n")
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		flags Flags
		want  string
	}{
		{Flags{}, ""},
		{Flags{Memory: "64m"}, "memory.max=67108864 | memory.limit_in_bytes=67108864"},
		{Flags{Memory: "64m", MemorySwap: "96m"}, "memory.max=67108864 | memory.limit_in_bytes=67108864\nmemory.swap.max=33554432 | memory.memsw.limit_in_bytes=100663296"},
		{Flags{Memory: "64m", MemorySwap: "64m"}, "memory.max=67108864 | memory.limit_in_bytes=67108864\nmemory.swap.max=0 | memory.memsw.limit_in_bytes=67108864"},
		{Flags{MemorySwap: "max"}, "memory.swap.max=max | memory.memsw.limit_in_bytes=-1"},
		{Flags{MemoryHigh: "1k", MemoryLow: "2k", MemoryMin: "3k", OOMGroup: true}, "memory.high=1024 | \nmemory.low=2048 | \nmemory.min=3072 | \nmemory.oom.group=1 | "},
		{Flags{CPUs: "0.5", CPUWeight: "100"}, "cpu.max=50000 100000 | cpu.cfs_period_us=100000 cpu.cfs_quota_us=50000\ncpu.weight=100 | cpu.shares=1024"},
		{Flags{CPUSetCPUs: "0-3,7", CPUSetMems: "0"}, "cpuset.cpus=0-3,7 | cpuset.cpus=0-3,7\ncpuset.mems=0 | cpuset.mems=0"},
		{Flags{Pids: "20"}, "pids.max=20 | pids.max=20"},
		{Flags{Pids: "-1"}, "pids.max=max | pids.max=max"},
		{Flags{Conf: []string{"memory.max=32m", "io.max=8:0 rbps=1", "io.max=8:0 wbps=2", "io.max=8:16 rbps=3"}},
			"memory.max=33554432 | \nio.max=8:0 rbps=1 | \nio.max=8:0 wbps=2 | \nio.max=8:16 rbps=3 | "},
	} {
		l, err := test.flags.Limits()
		if got := text(l); err != nil || got != test.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", test.flags, err, got, test.want)
		}
	}
	for _, test := range []struct {
		flags Flags
		what  string // flag
		cause string
	}{
		{Flags{Memory: "0"}, "--memory", "zero"}, {Flags{Memory: "lots"}, "--memory", "no amount"},
		{Flags{MemorySwap: "64m"}, "--memory-swap", "no --memory"}, {Flags{Memory: "64m", MemorySwap: "32m"}, "--memory-swap", "less than"},
		{Flags{CPUs: "0"}, "--cpus", "zero"}, {Flags{CPUWeight: "0"}, "--cpu-weight", "1 to 10000"}, {Flags{CPUWeight: "10001"}, "--cpu-weight", "1 to 10000"},
		{Flags{CPUSetCPUs: "3-1"}, "--cpuset-cpus", "no list"}, {Flags{CPUSetCPUs: "a"}, "--cpuset-cpus", "no list"},
		{Flags{Pids: "0"}, "--pids-limit", "from 1"}, {Flags{Pids: "many"}, "--pids-limit", "from 1"},
		{Flags{Conf: []string{"memory.max"}}, "--cgroup-conf", "no ="}, {Flags{Conf: []string{"../x.max=1"}}, "--cgroup-conf", "no interface file"},
		{Flags{Conf: []string{"cgroup.procs=1"}}, "--cgroup-conf", "no limit"}, {Flags{Conf: []string{"cgroup.kill=1"}}, "--cgroup-conf", "no limit"},
		{Flags{Memory: "64m", Conf: []string{"memory.max=1g"}}, "--cgroup-conf", "by --memory 64m"},
		{Flags{Conf: []string{"io.weight=8:0 5", "io.weight=8:0 6"}}, "--cgroup-conf", "by --cgroup-conf io.weight=8:0 5"},
		{Flags{Conf: []string{"memory.max= "}}, "--cgroup-conf", "empty"}, {Flags{Conf: []string{"io.max=8:0 rbps=1\n9:0 rbps=1"}}, "--cgroup-conf", "one line"},
	} {
		_, err := test.flags.Limits()
		var fault *ValueError
		if !errors.As(err, &fault) || fault.What != test.what || !strings.Contains(fault.Cause, test.cause) {
			t.Errorf("%+v: %v; want %s: %s", test.flags, err, test.what, test.cause)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// The conversions are crun's and runc's.
func TestFromResources(t *testing.T) {
	for name, test := range map[string]struct {
		r    specs.LinuxResources
		want string
	}{
		"memory": {specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: ptr[int64](64 << 20), Swap: ptr[int64](96 << 20), Reservation: ptr[int64](1 << 20)}},
			"memory.max=67108864 | memory.limit_in_bytes=67108864\nmemory.low=1048576 | memory.soft_limit_in_bytes=1048576\nmemory.swap.max=33554432 | memory.memsw.limit_in_bytes=100663296"},
		"no swap": {specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: ptr[int64](4096), Swap: ptr[int64](4096)}},
			"memory.max=4096 | memory.limit_in_bytes=4096\nmemory.swap.max=0 | memory.memsw.limit_in_bytes=4096"},
		"unlimited memory is unlimited swap": {specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: ptr[int64](-1)}},
			"memory.max=max | memory.limit_in_bytes=-1\nmemory.swap.max=max | memory.memsw.limit_in_bytes=-1"},
		"unlimited swap": {specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: ptr[int64](4096), Swap: ptr[int64](-1)}},
			"memory.max=4096 | memory.limit_in_bytes=4096\nmemory.swap.max=max | memory.memsw.limit_in_bytes=-1"},
		"v1 only": {specs.LinuxResources{Memory: &specs.LinuxMemory{Swappiness: ptr[uint64](10), DisableOOMKiller: ptr(true)}},
			" | memory.swappiness=10\n | memory.oom_control=1"},
		"unset": {specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: ptr[int64](0), KernelTCP: ptr[int64](-1)}, CPU: &specs.LinuxCPU{Shares: ptr[uint64](0), Quota: ptr[int64](0)}}, ""},
		"cpu": {specs.LinuxResources{CPU: &specs.LinuxCPU{Shares: ptr[uint64](2000), Quota: ptr[int64](20000), Period: ptr[uint64](50000), Burst: ptr[uint64](1000), Idle: ptr[int64](1), Cpus: "0", Mems: "0"}},
			"cpu.weight=170 | cpu.shares=2000\ncpu.max=20000 50000 | cpu.cfs_period_us=50000 cpu.cfs_quota_us=20000\ncpu.max.burst=1000 | cpu.cfs_burst_us=1000\n" +
				"cpu.idle=1 | cpu.idle=1\ncpuset.cpus=0 | cpuset.cpus=0\ncpuset.mems=0 | cpuset.mems=0"},
		"period alone": {specs.LinuxResources{CPU: &specs.LinuxCPU{Period: ptr[uint64](50000)}}, "cpu.max=max 50000 | cpu.cfs_period_us=50000 cpu.cfs_quota_us=-1"},
		"no quota":     {specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: ptr[int64](-1)}}, "cpu.max=max 100000 | cpu.cfs_period_us=100000 cpu.cfs_quota_us=-1"},
		"realtime": {specs.LinuxResources{CPU: &specs.LinuxCPU{RealtimeRuntime: ptr[int64](1000), RealtimePeriod: ptr[uint64](5000)}},
			" | cpu.rt_period_us=5000 cpu.rt_runtime_us=1000"},
		"pids":           {specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr[int64](20)}}, "pids.max=20 | pids.max=20"},
		"pids 0":         {specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr[int64](0)}}, "pids.max=1 | pids.max=1"},
		"pids unlimited": {specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr[int64](-5)}}, "pids.max=max | pids.max=max"},
		"io": {specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{Weight: ptr[uint16](10), ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(8, 0, 1048576), throttle(8, 16, 0)}}},
			"io.weight=default 1 | blkio.bfq.weight=10\nio.max=8:0 rbps=1048576 | blkio.throttle.read_bps_device=8:0 1048576\nio.max=8:16 rbps=max | blkio.throttle.read_bps_device=8:16 0"},
		"hugetlb": {specs.LinuxResources{HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "2MB", Limit: 1}}}, "hugetlb.2MB.max=1 | hugetlb.2MB.limit_in_bytes=1"},
		"rdma":    {specs.LinuxResources{Rdma: map[string]specs.LinuxRdma{"mlx5_0": {HcaHandles: ptr[uint32](2)}}}, "rdma.max=mlx5_0 hca_handle=2 | rdma.max=mlx5_0 hca_handle=2"},
		"unified wins": {specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr[int64](20)}, Unified: map[string]string{"pids.max": "7", "memory.high": "1M"}},
			"pids.max=7 | \nmemory.high=1048576 | "},
	} {
		l, _, err := FromResources(&test.r)
		if got := text(l); err != nil || got != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, test.want)
		}
	}
	both := specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr[int64](20)}, Unified: map[string]string{"pids.max": "7"}}
	if _, notes, _ := FromResources(&both); len(notes) != 1 || notes[0] != "linux.resources.unified pids.max=7 wins over linux.resources.pids.limit 20" {
		t.Errorf("%q", notes)
	}
	if l, notes, err := FromResources(nil); l != nil || notes != nil || err != nil {
		t.Error("no resources")
	}
}

func throttle(major, minor int64, rate uint64) specs.LinuxThrottleDevice {
	d := specs.LinuxThrottleDevice{Rate: rate}
	d.Major, d.Minor = major, minor
	return d
}

func TestFromResourcesRefuses(t *testing.T) {
	for path, r := range map[string]specs.LinuxResources{
		"memory.limit":       {Memory: &specs.LinuxMemory{Limit: ptr[int64](-2)}},
		"memory.swap":        {Memory: &specs.LinuxMemory{Swap: ptr[int64](4096)}},
		"memory.kernelTCP":   {Memory: &specs.LinuxMemory{KernelTCP: ptr[int64](4096)}},
		"cpu.cpus":           {CPU: &specs.LinuxCPU{Cpus: "x"}},
		"blockIO.leafWeight": {BlockIO: &specs.LinuxBlockIO{LeafWeight: ptr[uint16](10)}},
		"hugepageLimits":     {HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "../2MB"}}},
		"network":            {Network: &specs.LinuxNetwork{ClassID: ptr[uint32](1)}},
		"rdma":               {Rdma: map[string]specs.LinuxRdma{"mlx5_0": {}}},
		"unified":            {Unified: map[string]string{"cgroup.procs": "1"}},
	} {
		_, _, err := FromResources(&r)
		var fault *ValueError
		if !errors.As(err, &fault) || fault.What != "linux.resources."+path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The values are those of the discussions that changed the formula:
// opencontainers/runc#4772 and #4896, youki-dev/youki#3274.
func TestConversions(t *testing.T) {
	for shares, weight := range map[uint64]uint64{0: 0, 1: 1, 2: 1, 1024: 100, 2000: 170, 22000: 1204, 262144: 10000, 1 << 40: 10000} {
		if got := SharesToWeight(shares); got != weight {
			t.Errorf("shares %d: weight %d, want %d", shares, got, weight)
		}
	}
	for weight := uint64(1); weight <= 10000; weight++ {
		if shares := WeightToShares(weight); shares < 2 || shares > 262144 || weight > 1 && weight < 10000 && SharesToWeight(shares) > weight+1 {
			t.Fatalf("weight %d: shares %d, back %d", weight, shares, SharesToWeight(shares))
		}
	}
	for blkio, weight := range map[uint16]uint64{0: 0, 1: 1, 10: 1, 500: 4950, 1000: 10000} {
		if got := BlkioToIOWeight(blkio); got != weight {
			t.Errorf("blkio %d: %d, want %d", blkio, got, weight)
		}
	}
}

func TestOver(t *testing.T) {
	bundle, flags := limits(t, Flags{Memory: "64m", Pids: "5"}), limits(t, Flags{Memory: "32m"})
	if got := text(bundle.Over(flags)); got != "memory.max=33554432 | memory.limit_in_bytes=33554432\npids.max=5 | pids.max=5" {
		t.Error(got)
	}
	if text(bundle) != "memory.max=67108864 | memory.limit_in_bytes=67108864\npids.max=5 | pids.max=5" {
		t.Error("it changed what it was called on")
	}
}

func FuzzUnified(f *testing.F) {
	f.Add("memory.max", "1")
	f.Add("cgroup.procs", "1")
	f.Add("a/../b.c", "x")
	f.Fuzz(func(t *testing.T, file, value string) {
		l, err := unifiedLimit("x", file, value)
		if err != nil {
			return
		}
		if strings.ContainsAny(l.V2[0].File, "/\x00\n ") || strings.Contains(l.V2[0].Value, "\n") || strings.HasPrefix(file, "cgroup.p") {
			t.Error(fmt.Sprintf("%q %q", file, value), l)
		}
	})
}
