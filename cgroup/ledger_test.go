package cgroup

import (
	"errors"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		file, want, read string
		is               likeness
	}{
		{"memory.max", "67108864", "67108864", same}, {"memory.max", "67108865", "67108864", rounded}, {"memory.max", "67108864", "max", different},
		{"memory.max", "67108864", "33554432", different}, {"memory.max", "max", "max", same}, {"memory.limit_in_bytes", "-1", "9223372036854771712", same},
		{"memory.oom_control", "1", "oom_kill_disable 1\nunder_oom 0", same}, {"memory.oom_control", "1", "oom_kill_disable 0\nunder_oom 0", different},
		{"cpu.max", "50000 100000", "50000 100000", same}, {"cpu.max", "50000 100000", "max 100000", different},
		{"cpuset.cpus", "0,1,2", "0-2", same}, {"cpuset.cpus", "0-2", "0-1", different}, {"cpuset.cpus", "0", "", different},
		{"pids.max", "20", "20", same}, {"pids.max", "20", "max", different},
		{"io.max", "8:0 rbps=1048576", "8:0 rbps=1048576 wbps=max riops=max wiops=max", same},
		{"io.max", "8:0 rbps=1048576", "8:0 rbps=max wbps=max riops=max wiops=max", different},
		{"io.weight", "default 100", "default 100\n8:0 5", same}, {"blkio.throttle.read_bps_device", "8:0 5", "8:0 5", same},
		{"hugetlb.2MB.max", "2097153", "2097152", rounded},
	} {
		if got := compare("/x/"+test.file, test.want, test.read); got != test.is {
			t.Errorf("%s %q %q: %d, want %d", test.file, test.want, test.read, got, test.is)
		}
	}
}

// Settle: with require an error that lists each, with try a warning for each;
// never neither.
func TestSettle(t *testing.T) {
	ledger := Ledger{
		{Key: "memory.max", Asked: "--memory 64m", State: InForce},
		{Key: "pids.max", Asked: "--pids-limit 20", File: "/x/pids.max", Want: "20", Read: "max", State: NotInForce, Cause: "because"},
		{Key: "cpu.max", Asked: "--cpus 1", State: Intended},
		{Key: "memory.high", Asked: "--memory-high 32m", State: Rounded, Tighter: "/y/memory.high 1048576"},
	}
	for _, mode := range []Mode{Require, ""} {
		_, err := Settle(mode, ledger)
		var fault *LimitError
		if !errors.As(err, &fault) || len(fault.Entries) != 2 || !strings.Contains(err.Error(), "--limits=try") || !strings.Contains(err.Error(), `reads max`) {
			t.Errorf("%q: %v", mode, err)
		}
	}
	warnings, err := Settle(Try, ledger)
	if err != nil || len(warnings) != 3 || !strings.Contains(warnings[2], "/y/memory.high 1048576") {
		t.Errorf("%q %v", warnings, err)
	}
	if warnings, err := Settle(Require, ledger[:1]); len(warnings) != 0 || err != nil {
		t.Errorf("%q %v", warnings, err)
	}
}

// A cpuset of v2 takes more than there is, and goes by what is left of it, or, when
// nothing is, by the outer one's.
func TestConfine(t *testing.T) {
	for _, test := range []struct {
		want, effective string
		state           State
		tighter         string
	}{
		{"0-1", "0-1", InForce, ""}, {"0,1", "0-1", InForce, ""}, {"0-1", "0", InForce, "/x/cpuset.cpus.effective 0"},
		{"1", "0", NotInForce, ""}, {"1-2", "0-1", NotInForce, ""}, {"1", "", NotInForce, ""},
	} {
		e := Entry{Key: "cpuset.cpus", File: "/x/cpuset.cpus", Want: test.want, State: InForce}
		if e.confine(test.effective); e.State != test.state || e.Tighter != test.tighter || (e.Cause == "") != (e.State == InForce) {
			t.Errorf("%s of %s: %s", test.want, test.effective, e)
		}
	}
}

// A value that reads back otherwise isn't in force, though the write went well
// (containers/crun#223).
func TestReadBackDiffers(t *testing.T) {
	e := Entry{Key: "memory.max", File: "/x/memory.max", Want: "67108864"}
	e.settle("max")
	if e.State != NotInForce || !strings.Contains(e.String(), `"67108864" was written`) {
		t.Error(e)
	}
}
