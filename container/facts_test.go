package container

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// What is to be masked is looked at where the container will show it from: a
// bundle that masks /sys/firmware and mounts no /sys has nothing to mask there.
func TestHostPath(t *testing.T) {
	o := &Options{Root: Root{Kind: RootDirect, Path: "/bundle/rootfs"}}
	spec := &specs.Spec{Mounts: []specs.Mount{
		{Destination: "/proc", Type: "proc"},
		{Destination: "/sys/fs/cgroup", Type: "cgroup"},
		{Destination: "/dev/", Type: "tmpfs"},
		{Destination: "/data", Source: "/srv/d", Options: []string{"rbind"}},
		{Destination: "/data/inner", Type: "tmpfs"},
		{Destination: "/p", Type: "proc"},
	}}
	for p, want := range map[string]string{
		"/proc/kcore":           "/proc/kcore",
		"/proc/":                "/proc",
		"/p/sys/kernel":         "/proc/sys/kernel",
		"/sys/firmware":         "/bundle/rootfs/sys/firmware",
		"/sys/fs/cgroup/memory": "/sys/fs/cgroup/memory",
		"/etc/x":                "/bundle/rootfs/etc/x",
		"/dev/x":                "",
		"/dev":                  "/",
		"/data/a/../b":          "/srv/d/b",
		"/data":                 "/srv/d",
		"/data/inner/x":         "",
		"/database":             "/bundle/rootfs/database",
		"/process":              "/bundle/rootfs/process",
	} {
		if got := hostPath(spec, o, p); got != want {
			t.Errorf("%s is shown from %q, want %q", p, got, want)
		}
	}
	spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/sys", Type: "sysfs"})
	if got := hostPath(spec, o, "/sys/firmware"); got != "/sys/firmware" {
		t.Error(got)
	}
	if got := hostPath(&specs.Spec{}, &Options{Root: Root{Kind: RootHost}}, "/sys/firmware"); got != "/sys/firmware" {
		t.Error(got)
	}
}
