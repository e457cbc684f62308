package cgroup

import (
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	mount := func(root string) cgroupMount { return cgroupMount{version: 2, root: root, point: "/sys/fs/cgroup"} }
	for _, test := range []struct {
		m                  cgroupMount
		own, want, missing string
	}{
		{mount("/"), "/", "/sys/fs/cgroup", ""},
		{mount("/"), "/a/b", "/sys/fs/cgroup/a/b", ""},
		{mount("/a"), "/a/b", "/sys/fs/cgroup/b", ""},                    // a container without a cgroup namespace
		{mount("/a"), "/ab", "", "shows /a"},                             //
		{mount("/"), "/../c", "", "outside of our cgroup namespace"},     // podman-container-tools/podman#5488
		{mount("/docker/x"), "/user.slice", "", "our cgroup is /user.s"}, //
		{mount("/"), "/a (deleted)", "", "was removed"},
	} {
		folder, missing := test.m.locate(test.own)
		if folder != test.want || !strings.Contains(missing, test.missing) || (missing == "") != (test.missing == "") {
			t.Errorf("%s in %s: %q %q", test.own, test.m.root, folder, missing)
		}
	}
}

func TestParseMounts(t *testing.T) {
	const text = `25 20 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 /x\040y /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
32 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 25 0:30 / /mnt/cg rw - cgroup2 cgroup2 rw
broken
`
	list := parseMounts(text, "/sys/fs/cgroup")
	if len(list) != 2 || list[0].version != 1 || list[1].version != 2 || list[1].root != "/" {
		t.Errorf("%+v", list)
	}
	own := parseOwn("5:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/c\n")
	if len(own) != 3 || own[0].path != "/a:b" || !list[0].has(own[0]) || list[0].has(own[1]) || !list[1].has(own[2]) {
		t.Errorf("%+v", own)
	}
}

func FuzzProcFiles(f *testing.F) {
	f.Add("0::/a\n", "31 25 0:28 /x\\040y /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	f.Fuzz(func(t *testing.T, own, mounts string) {
		for _, m := range parseMounts(mounts, Root) {
			for _, o := range parseOwn(own) {
				folder, missing := m.locate(o.path)
				if m.has(o) && (folder == "") == (missing == "") {
					t.Errorf("%q and %q", folder, missing)
				}
			}
		}
		parseKeyed(own)
		parsePressure(own)
		parseIOStat(own)
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		NewName(): true, "wolffia-1-a": true, "wolffia-launcher-1-a": true, "wolffia-": false, "wolffia-1": false, "wolffia-1-": false, "wolffia--a": false,
		"wolffia-user-1000": false, "wolffia-test-77": false, "wolffia-1-xyz": false, "main": false, "wolffia-1-a.scope": false, "wolffia-1-a-b": false,
	} {
		if ours(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
