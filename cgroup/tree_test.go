package cgroup

import (
	"os"
	"strings"
	"testing"
)

// Look agrees with the kernel's list of mounts.
func TestLook(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	want := NoTree
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		switch {
		case f[1] != Root:
		case f[2] == "cgroup2":
			want = Unified
		case f[2] == "tmpfs":
			want = Legacy
		}
	}
	if got := Look(Root); got != want {
		t.Errorf("%s: %s, want %s", Root, got, want)
	}
	if got := Look("/sys/kernel"); got != NoTree {
		t.Errorf("a folder of sysfs: %s", got)
	}
	if got := Look("/nonexistent"); got != NoTree {
		t.Errorf("nothing: %s", got)
	}
}
