package cgroup

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCertify(t *testing.T) {
	own := func(kills, oom uint64) Counters {
		return Counters{Memory: &MemoryEvents{OOMKill: kills, OOM: oom}, MemoryLocal: &MemoryEvents{OOMKill: kills, OOM: oom}, Limit: "67108864", Peak: 64 << 20}
	}
	outer := func(oom uint64) Counters {
		c := own(1, 0)
		if oom == 0 {
			c = own(0, 0)
		}
		c.Outer = []Outer{{File: "/sys/fs/cgroup/a/memory.max", Limit: "33554432", Local: MemoryEvents{OOM: oom}}}
		return c
	}
	v1 := func(failures, kills uint64) Counters {
		return Counters{Memory: &MemoryEvents{OOMKill: kills, Max: failures}, Limit: "67108864"}
	}
	kill := End{Signal: unix.SIGKILL}
	for _, test := range []struct {
		name          string
		end           End
		before, after Counters
		reason        Death
		code          int
		line          string
	}{
		{"own limit", kill, own(0, 0), own(1, 1), OOM, 137, "killed: out of memory at 64 MiB (memory.max of this container), peak 64 MiB"},
		{"earlier kills don't count", kill, own(3, 3), own(3, 3), Signaled, 137, ""},
		{"operator", kill, own(0, 0), own(0, 0), Signaled, 137, ""}, // hashicorp/nomad#12735
		{"our own SIGKILL after an OOM of a child", End{Signal: unix.SIGKILL, Ours: true}, own(0, 0), own(1, 1), Signaled, 137,
			"the OOM killer killed a process of the container at 64 MiB (memory.max of this container); its first process lived on, peak 64 MiB"},
		{"operator, long after an OOM of a child", End{Signal: unix.SIGKILL, SinceKill: time.Minute}, own(0, 0), own(1, 1), Signaled, 137,
			"the OOM killer killed a process of the container at 64 MiB (memory.max of this container); its first process lived on, peak 64 MiB"},
		{"children died, the program went on", End{Code: 7}, own(0, 0), own(2, 2), Exited, 7,
			"the OOM killer killed 2 processes of the container at 64 MiB (memory.max of this container); its first process lived on, peak 64 MiB"},
		{"outer limit", kill, outer(0), outer(1), OOM, 137, "killed: out of memory at 32 MiB (/sys/fs/cgroup/a/memory.max), peak 64 MiB"},
		{"the machine", kill, own(0, 0), own(1, 0), OOM, 137, "killed: out of memory (the machine's memory, or an outer limit that this user can't see), peak 64 MiB"},
		{"v1", kill, v1(0, 0), v1(5, 1), OOM, 137, "killed: out of memory at 64 MiB (memory.max of this container)"},
		{"exit 137 is no signal", End{Code: 137}, own(0, 0), own(0, 0), Exited, 137, ""},
		{"no memory controller", kill, Counters{}, Counters{}, Signaled, 137, ""},
		{"forks refused", End{Code: 2}, Counters{}, Counters{PidsMax: 3, PidsLimit: "20", PidsPeak: 20}, Exited, 2, "pids.max of this container refused 3 forks (EAGAIN)"},
		{"forks refused, by a kernel that tells no peak", End{Code: 2}, Counters{}, Counters{PidsMax: 1, PidsLimit: "20"}, Exited, 2, "pids.max of this container refused 1 fork (EAGAIN)"},
		{"forks refused above", End{Code: 2}, Counters{}, Counters{PidsMax: 1, PidsLimit: "20", PidsPeak: 9}, Exited, 2,
			"pids.max of another cgroup, above this container's or in it, refused 1 fork (EAGAIN)"},
		{"forks refused, no limit of its own", End{Code: 2}, Counters{}, Counters{PidsMax: 2, PidsLimit: "max"}, Exited, 2,
			"pids.max of another cgroup, above this container's or in it, refused 2 forks (EAGAIN)"},
		{"SIGTERM", End{Signal: unix.SIGTERM}, own(0, 0), own(0, 0), Signaled, 143, ""},
	} {
		c := Certify(test.end, test.before, test.after)
		if c.Reason != test.reason || c.Code != test.code || c.String() != test.line {
			t.Errorf("%s: %s %d %q", test.name, c.Reason, c.Code, c.String())
		}
	}
}

func TestParsePressure(t *testing.T) {
	p := parsePressure("some avg10=1.50 avg60=0.25 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=3.00 total=7\n")
	if p.Some.Avg10 != 1.5 || p.Some.Avg60 != 0.25 || p.Some.Total != 12*time.Microsecond || p.Full.Avg300 != 3 || p.Full.Total != 7*time.Microsecond {
		t.Errorf("%+v", p)
	}
}

func TestParseIOStat(t *testing.T) {
	list := parseIOStat("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n7:0 \n8:16 rbytes=5\n")
	if len(list) != 2 || list[0] != (IOStats{"8:0", 1, 2, 3, 4}) || list[1].ReadBytes != 5 {
		t.Errorf("%+v", list)
	}
}
