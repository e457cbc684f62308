package cgroup

import "testing"

// A value is written as the kernel prints it: what is in force would be refused
// otherwise, as "32M" reads back as 33554432.
func TestCanonical(t *testing.T) {
	for _, test := range []struct{ file, value, want string }{
		{"memory.high", "32M", "33554432"}, {"memory.max", "1k", "1024"}, {"memory.max", "max", "max"}, {"memory.low", "0", "0"},
		{"memory.max", "x32M", "x32M"}, {"hugetlb.2MB.max", "4M", "4194304"}, {"memory.oom.group", "1", "1"},
		{"cpu.max", "50000", "50000 100000"}, {"cpu.max", "max", "max 100000"}, {"cpu.max", "50000 20000", "50000 20000"},
		{"io.weight", "50", "default 50"}, {"io.weight", "8:0 50", "8:0 50"}, {"pids.max", "20", "20"},
	} {
		if got := canonical(test.file, test.value); got != test.want {
			t.Errorf("%s=%s: %q, want %q", test.file, test.value, got, test.want)
		}
	}
}
