package container

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/mount"
	"wolffia.dev/userns"
)

// Facts and requests that plans are made from in the tests. Nothing of this
// machine is in them.

var update = flag.Bool("update", false, "write testdata anew")

func wholeMachine() userns.IDMap {
	return userns.IDMap{{Inside: 0, Outside: 0, Length: 4294967295}}
}

// userFacts are an ordinary user's with sub-ids on a new kernel.
func userFacts() *Facts {
	helper := func(name string) userns.Tool {
		return userns.Tool{Name: name, Found: true, Path: "/usr/bin/" + name, Mode: 0o4755}
	}
	return &Facts{
		Kernel: "6.18.0", Arch: "amd64",
		IDs: &userns.Facts{UID: 1000, GID: 1000, User: "user", Groups: []uint32{1000, 27}, UIDMap: wholeMachine(), GIDMap: wholeMachine(),
			Setgroups: "allow", NewUIDMap: helper("newuidmap"), NewGIDMap: helper("newgidmap"),
			SubUID: []userns.Range{{Start: 100000, Count: 65536, Source: "/etc/subuid:1"}},
			SubGID: []userns.Range{{Start: 100000, Count: 65536, Source: "/etc/subgid:1"}}},
		Features: Features{MountSetattr: true, PerLayer: true, TmpfsXattr: true},
		Limits:   Limits{"RLIMIT_CORE": {0, unix.RLIM_INFINITY}, "RLIMIT_NOFILE": {1024, 524288}},
		Paths:    defaultPaths(),
		Sources:  map[string]mount.FileType{},
		TopDirs:  []TopEntry{{Name: "bin", Target: "usr/bin"}, {Name: "lib64", Target: "usr/lib64"}, {Name: "usr"}, {Name: "opt"}},
		Cgroups:  cgroup.Unified,
	}
}

// rootFacts are root's, whose containers get a range that nobody has.
func rootFacts() *Facts {
	f := userFacts()
	f.IDs = &userns.Facts{User: "root", Groups: []uint32{0}, UIDMap: wholeMachine(), GIDMap: wholeMachine(), Setgroups: "allow",
		Privileged: true, SetFCap: true, SysAdmin: true, FreeRange: &userns.Range{Start: 1000000, Count: 65536, Source: "no other use found"}}
	return f
}

// defaultPaths are the masked and read-only paths of DefaultSpec on a machine
// that has some of them.
func defaultPaths() map[string]mount.FileType {
	paths := map[string]mount.FileType{}
	spec := DefaultSpec()
	for _, p := range slices.Concat(spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths) {
		paths[p] = mount.Directory
	}
	for _, p := range []string{"/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger"} {
		paths[p] = mount.File
	}
	for _, p := range []string{"/proc/acpi", "/proc/asound", "/proc/latency_stats", "/proc/sched_debug", "/proc/timer_stats"} {
		paths[p] = mount.Absent
	}
	return paths
}

// A planCase is one request on one machine.
type planCase struct {
	name  string
	spec  *specs.Spec
	opts  *Options
	facts *Facts
}

func planCaseOf(name string, f *Facts, root Root, mode userns.Mode) planCase {
	spec := DefaultSpec()
	spec.Process.Args = []string{"sh", "-c", "id"}
	return planCase{name, spec, &Options{Root: root, Map: userns.Request{Mode: mode}, AnyUser: true}, f}
}

var (
	hostRoot   = Root{Kind: RootHost}
	folderRoot = Root{Kind: RootOverlay, Path: "/images/base"}
)

// with changes a case.
func (c planCase) with(change func(c *planCase)) planCase {
	change(&c)
	return c
}

func (c *planCase) as(uid, gid uint32) {
	c.spec.Process.User, c.opts.AnyUser = specs.User{UID: uid, GID: gid}, false
}

// share takes a namespace out, as --share does.
func (c *planCase) share(kind specs.LinuxNamespaceType) {
	c.spec.Linux.Namespaces = slices.DeleteFunc(c.spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
	switch kind {
	case specs.UTSNamespace:
		c.spec.Hostname = ""
	case specs.IPCNamespace:
		c.spec.Mounts = slices.DeleteFunc(c.spec.Mounts, func(m specs.Mount) bool { return m.Type == "mqueue" })
	}
}

// bundleCase is a bundle that a peer's `spec --rootless` made.
func bundleCase(t testing.TB, peer string) planCase {
	data, err := os.ReadFile("testdata/" + peer + "-rootless.json")
	if err != nil {
		t.Fatal(err)
	}
	spec := decode(t, string(data))
	makeAbsolute(spec, "/bundle")
	f := userFacts()
	for _, maps := range [][]specs.LinuxIDMapping{spec.Linux.UIDMappings, spec.Linux.GIDMappings} {
		for i := range maps {
			maps[i].HostID = 1000 // who made the bundle was somebody else
		}
	}
	for _, p := range slices.Concat(spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths) {
		if f.Paths[p] == "" {
			f.Paths[p] = mount.Absent
		}
	}
	return planCase{"bundle-" + peer, spec, &Options{Root: Root{Kind: RootDirect, Path: spec.Root.Path}, Map: userns.Request{Mode: userns.Auto}}, f}
}

func oldKernel(kernel string, setattr bool) *Facts {
	f := userFacts()
	f.Kernel, f.Features, f.Scratch = kernel, Features{MountSetattr: setattr}, "/home/user/.local/share/wolffia/scratch/1-a"
	return f
}

// planCases are those whose whole text is kept in testdata.
func planCases(t testing.TB) []planCase {
	return []planCase{
		planCaseOf("user-rootfs", userFacts(), folderRoot, userns.Auto),
		planCaseOf("user-host-single", userFacts(), hostRoot, userns.Single),
		planCaseOf("user-1000", userFacts(), folderRoot, userns.Auto).with(func(c *planCase) { c.as(1000, 1000) }),
		planCaseOf("root-rootfs", rootFacts(), folderRoot, userns.Auto),
		planCaseOf("root-host-ids", rootFacts(), folderRoot, userns.Host),
		planCaseOf("root-idmap", rootFacts(), folderRoot, userns.Auto).with(idmapped),
		planCaseOf("limits-v2", userFacts(), folderRoot, userns.Single).with(limits(t, "v2-delegated")),
		planCaseOf("limits-v1", userFacts(), folderRoot, userns.Single).with(limits(t, "v1-hybrid")),
		bundleCase(t, "crun"),
		planCaseOf("kernel-6.1", oldKernel("6.1.0", true), folderRoot, userns.Auto),
		planCaseOf("kernel-6.1-host", oldKernel("6.1.0", true), hostRoot, userns.Single),
	}
}

// moreCases are plans that differ from those in what the tests look at.
func moreCases(t testing.TB) []planCase {
	upper := Root{Kind: RootOverlay, Path: "/images/app", Lower: []string{"/images/base"}, Upper: "/home/user/up"}
	return append(planCases(t),
		planCaseOf("user-upper", userFacts(), upper, userns.Auto),
		planCaseOf("user-read-only", userFacts(), Root{Kind: RootReadOnly, Path: "/images/base"}, userns.Single),
		planCaseOf("root-read-only", rootFacts(), Root{Kind: RootReadOnly, Path: "/images/base"}, userns.Auto),
		planCaseOf("names of slots", rootFacts(), folderRoot, userns.Auto).with(func(c *planCase) {
			for _, name := range []string{"lifeline", "tree", "inet", "cwd", "root", "union", "scratch", "empty", "proc.fs", "a/proc", "b/proc.2", "target12", "mask5", "dev/null"} {
				c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "/x/" + name, Type: "tmpfs", Source: "tmpfs"})
			}
			c.spec.Process.Cwd = "/x"
		}),
		planCaseOf("root-rootfs-6.1", rootFacts(), folderRoot, userns.Auto).with(func(c *planCase) { c.facts.Features.PerLayer = false }),
		planCaseOf("root-host", rootFacts(), hostRoot, userns.Auto),
		planCaseOf("user-upper-6.1", oldKernel("6.1.0", true), upper, userns.Auto),
		planCaseOf("user-host-ids", userFacts(), folderRoot, userns.Host),
		planCaseOf("volumes", userFacts(), folderRoot, userns.Auto).with(volumes),
		bundleCase(t, "runc"),
	)
}

// limits asks for some on a machine whose facts package cgroup keeps.
func limits(t testing.TB, machine string) func(c *planCase) {
	return func(c *planCase) {
		text, err := os.ReadFile("../cgroup/testdata/" + machine + ".facts.json")
		if err != nil {
			t.Fatal(err)
		}
		c.facts.Cgroup = &cgroup.Facts{}
		if err := json.Unmarshal(text, c.facts.Cgroup); err != nil {
			t.Fatal(err)
		}
		c.facts.Cgroups = c.facts.Cgroup.Tree
		for _, h := range c.facts.Cgroup.Hierarchies {
			if h.Version == 1 { // delegated
				h.Chain[0].Mkdir, h.Chain[0].Attach, h.Chain[0].Denied = true, true, ""
			}
		}
		if c.opts.Cgroups.Limits, err = (cgroup.Flags{Memory: "64m", Pids: "20"}).Limits(); err != nil {
			t.Fatal(err)
		}
		c.opts.Cgroups.Writable = c.facts.Cgroups == cgroup.Unified
	}
}

// volumes adds a mount of every kind, limits, fds and a working directory.
func volumes(c *planCase) {
	c.spec.Mounts = append(c.spec.Mounts,
		specs.Mount{Destination: "/data", Source: "/srv/data", Options: []string{"rbind", "rro"}},
		specs.Mount{Destination: "/etc/resolv.conf", Source: "/etc/resolv.conf", Options: []string{"bind", "ro", "nosuid"}},
		specs.Mount{Destination: "/media", Source: "/media", Options: []string{"rbind", "rslave"}},
		specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro"}},
		specs.Mount{Destination: "/cache", Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "size=64m", "uid=70000"}})
	c.facts.Sources = map[string]mount.FileType{"/srv/data": mount.Directory, "/etc/resolv.conf": mount.File, "/media": mount.Directory}
	c.spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NPROC", Soft: 100, Hard: 200}, {Type: "RLIMIT_NOFILE", Soft: 512, Hard: 512}}
	c.facts.Limits["RLIMIT_NPROC"] = Limit{1000, 1000}
	c.spec.Process.Cwd, c.opts.PreserveFDs = "/data", 2
}

// idmapped adds mounts with the container's map and with maps of their own, of
// which two are the same.
func idmapped(c *planCase) {
	own := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 1000500, Size: 10}}
	c.spec.Mounts = append(c.spec.Mounts,
		specs.Mount{Destination: "/data", Source: "/srv/data", Options: []string{"rbind", "rro", "ridmap"}},
		specs.Mount{Destination: "/a", Source: "/srv/a", Options: []string{"bind", "idmap"}, UIDMappings: own, GIDMappings: own},
		specs.Mount{Destination: "/b", Source: "/srv/b", Options: []string{"rbind", "rslave", "nosuid"}, UIDMappings: own, GIDMappings: own})
	c.facts.Sources = map[string]mount.FileType{"/srv/data": mount.Directory, "/srv/a": mount.File, "/srv/b": mount.Directory}
	c.facts.Idmap = map[string][]mount.Filesystem{"/srv/data": {{At: "/srv", Type: "ext4"}, {At: "/srv/data/nfs", Type: "nfs4"}}, "/srv/a": {{At: "/srv", Type: "ext4"}},
		"/srv/b": {{At: "/srv/b", Type: "tmpfs"}, {At: "/srv/b/proc", Type: "proc"}}}
}

func (c planCase) compile(t testing.TB) *Plan {
	t.Helper()
	plan, err := Compile(c.spec, c.opts, c.facts)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if err := plan.Validate(); err != nil {
		t.Fatalf("%s: %v\n%s", c.name, err, plan)
	}
	return plan
}

func TestPlansGolden(t *testing.T) {
	for _, c := range planCases(t) {
		t.Run(c.name, func(t *testing.T) { golden(t, "testdata/plan-"+c.name+".txt", c.compile(t).String()) })
	}
}

// What --share takes out of a plan and brings in.
func TestSharedNamespacesGolden(t *testing.T) {
	whole := planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t)
	for _, kind := range []specs.LinuxNamespaceType{specs.NetworkNamespace, specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace} {
		t.Run(string(kind), func(t *testing.T) {
			shared := planCaseOf("", userFacts(), folderRoot, userns.Auto).with(func(c *planCase) { c.share(kind) }).compile(t)
			golden(t, "testdata/plan-share-"+string(kind)+".txt", difference(whole, shared))
		})
	}
}

// difference is the lines that only one of two plans has, without step and slot
// numbers.
func difference(from, to *Plan) string {
	a, b := unnumbered(from), unnumbered(to)
	text := ""
	for _, l := range a {
		if !slices.Contains(b, l) {
			text += "- " + l + "\n"
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			text += "+ " + l + "\n"
		}
	}
	return text
}

func unnumbered(p *Plan) (lines []string) {
	for line := range strings.Lines(p.String()) {
		lines = append(lines, slotNumber(strings.TrimLeft(strings.TrimSpace(line), "0123456789 ")))
	}
	return lines
}

// slotNumber takes the count from the tree's slots: "target12" is "target#".
func slotNumber(line string) string {
	for _, kind := range []string{"target", "mask", "readonly", "bind", "layer", "upper", "work"} {
		parts := strings.Split(line, kind)
		for i := range parts[1:] {
			if rest := strings.TrimLeft(parts[i+1], "0123456789"); rest != parts[i+1] {
				parts[i+1] = "#" + rest
			}
		}
		line = strings.Join(parts, kind)
	}
	return line
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; see go test -update\n%s", path, got)
	}
}

// Compile is pure: it gives one text however often it is asked, and leaves what
// it was given as it was.
func TestCompileIsPure(t *testing.T) {
	for _, c := range moreCases(t) {
		before, first := inputs(t, c), c.compile(t).String()
		for range 20 {
			if again := c.compile(t).String(); again != first {
				t.Fatalf("%s: first\n%s\nthen\n%s", c.name, first, again)
			}
		}
		if after := inputs(t, c); after != before {
			t.Errorf("%s: Compile was given\n%s\nand left\n%s", c.name, before, after)
		}
	}
}

func inputs(t *testing.T, c planCase) string {
	return jsonText(t, c.spec) + jsonText(t, c.opts) + jsonText(t, c.facts)
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Facts that were saved by --facts-save plan the same.
func TestSavedFactsPlanTheSame(t *testing.T) {
	for _, c := range moreCases(t) {
		want := c.compile(t).String()
		var read Facts
		if err := json.Unmarshal([]byte(jsonText(t, c.facts)), &read); err != nil {
			t.Fatal(err)
		}
		c.facts = &read
		if got := c.compile(t).String(); got != want {
			t.Errorf("%s: planned\n%s\nand with saved facts\n%s", c.name, want, got)
		}
	}
}

// A container with one id, and what the launcher does for it.
func ExampleCompile() {
	spec := DefaultSpec()
	spec.Process.Args = []string{"/bin/true"}
	plan, err := Compile(spec, &Options{Root: folderRoot, Map: userns.Request{Mode: userns.Single}, AnyUser: true}, userFacts())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range plan.Host {
		fmt.Println(h.Name)
	}
	fmt.Println(plan.Child[len(plan.Child)-1])
	// Output:
	// lifeline
	// make the child
	// write the uid map
	// deny setgroups
	// write the gid map
	// keeper
	// open the gate
	// wait for execve
	// execve("/bin/true", ["/bin/true"], [1 variables]) or ENOENT, EACCES, ENOTDIR
}
