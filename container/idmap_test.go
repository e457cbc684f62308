package container

import (
	"errors"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// What is known not to work is refused before anything is made: opencontainers/runc#3717 (a home directory, by an
// ordinary user), containers/crun#1382 (file systems that can't).
func TestIDMapRefusedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		facts  *Facts
		found  []mount.Filesystem
		option string
		errno  unix.Errno
		words  []string
	}{
		{"runc#3717", userFacts(), []mount.Filesystem{{At: "/home", Type: "ext4"}}, "idmap", unix.EPERM, []string{`"/src" (ext4)`, "CAP_SYS_ADMIN", "chown", "plainly"}},
		{"crun#1382", rootFacts(), []mount.Filesystem{{At: "/src", Type: "sysfs"}}, "idmap", unix.EINVAL, []string{"sysfs is made up by the kernel"}},
		{"overlay", rootFacts(), []mount.Filesystem{{At: "/", Type: "overlay"}}, "idmap", unix.EINVAL, []string{"layers"}},
		{"below", rootFacts(), []mount.Filesystem{{At: "/", Type: "ext4"}, {At: "/src/proc", Type: "proc"}}, "ridmap", unix.EINVAL, []string{"/src/proc is mounted below it"}},
		{"saved facts without it", userFacts(), nil, "idmap", unix.EPERM, []string{"CAP_SYS_ADMIN"}},
	} {
		c := planCaseOf("", test.facts, folderRoot, userns.Auto)
		c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "/d", Source: "/src", Options: []string{"rbind", test.option}})
		c.facts.Idmap = map[string][]mount.Filesystem{"/src": test.found}
		_, err := Compile(c.spec, c.opts, c.facts)
		var fault *mount.IDMapError
		if !errors.As(err, &fault) || fault.Errno != test.errno || fault.Remedy == "" {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, w := range append(test.words, "mount at /d: ", nsexec.ErrnoName(test.errno)) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in %v", test.name, w, err)
			}
		}
		if f := failure(err); f.Reason != "idmap" || f.Errno == "" {
			t.Errorf("%s: the result says %+v", test.name, f)
		}
	}
}

// Where only the top is mapped, what is mounted below may be anything.
func TestIDMapOfTheTop(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto).with(idmapped)
	plan := c.compile(t)
	for _, h := range plan.Host {
		if h.Name == "idmap /b" && h.Flags != 0 {
			t.Errorf("%s", h)
		}
	}
}

// Flags of the host's mounts aren't locked in a mount that is handed over: who could change them is warned of.
func TestIDMapUnlockedFlags(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto).with(idmapped)
	if plan := c.compile(t); len(plan.Warnings()) != 0 {
		t.Errorf("%q", plan.Warnings())
	}
	c.spec.Process.Capabilities = &specs.LinuxCapabilities{Bounding: []string{"CAP_SYS_ADMIN"}}
	plan := c.compile(t)
	if len(plan.Warnings()) != 1 || !strings.Contains(plan.Warnings()[0], "nosuid") || !strings.HasSuffix(plan.Warnings()[0], ": the root, /data, /a, /b") {
		t.Errorf("%q", plan.Warnings())
	}
}

// A map that can't be is refused as those of a container are, by type and before anything is made.
func TestIDMapOwnMapRefused(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto).with(idmapped)
	c.spec.Mounts[len(c.spec.Mounts)-1].UIDMappings = []specs.LinuxIDMapping{{Size: 10}, {ContainerID: 5, HostID: 20, Size: 10}}
	_, err := Compile(c.spec, c.opts, c.facts)
	var fault *userns.PlanError
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "mount at /b") {
		t.Error(err)
	}
}

// Mounts with the same map share a namespace, and those whose gids alone differ don't.
func TestIDMapOwnMaps(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto)
	for _, gid := range []uint32{1000500, 1000500, 1000600} {
		c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "/d", Source: "/src", Options: []string{"bind", "idmap"},
			UIDMappings: []specs.LinuxIDMapping{{HostID: 1000500, Size: 10}}, GIDMappings: []specs.LinuxIDMapping{{HostID: gid, Size: 10}}})
	}
	var made []string
	for _, h := range c.compile(t).Host {
		if h.Op == nsexec.OpUserns {
			made = append(made, h.UIDMap+h.GIDMap)
		}
	}
	if len(made) != 2 || made[0] != "0 1000500 10\n0 1000500 10\n" || made[1] != "0 1000500 10\n0 1000600 10\n" {
		t.Errorf("%q", made)
	}
}

// The fds that the child keeps must not meet those that it inherits.
func TestIDMapTooMany(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto)
	c.opts.PreserveFDs = 100
	for range 25 {
		c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "/d", Source: "/src", Options: []string{"rbind", "idmap"}})
	}
	_, err := Compile(c.spec, c.opts, c.facts)
	var request *RequestError
	if !errors.As(err, &request) || !strings.Contains(request.Cause, "26 idmapped mounts") || !strings.Contains(request.Cause, "there can be 24") {
		t.Error(err)
	}
	c.spec.Mounts = c.spec.Mounts[:len(c.spec.Mounts)-2]
	if _, err := Compile(c.spec, c.opts, c.facts); err != nil {
		t.Error(err)
	}
}
