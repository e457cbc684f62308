package container

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Every request that can't work is refused before anything is started, by what
// was asked for and with a way out.
func TestCompileRefuses(t *testing.T) {
	base := func() planCase { return planCaseOf("", userFacts(), folderRoot, userns.Auto) }
	root := func() planCase { return planCaseOf("", rootFacts(), folderRoot, userns.Auto) }
	for _, test := range []struct {
		name   string
		make   func() planCase
		change func(c *planCase)
		what   string // RequestError.What
		cause  string
	}{
		{"no program", base, func(c *planCase) { c.spec.Process.Args = nil }, "process.args", "no program"},
		{"no process", base, func(c *planCase) { c.spec.Process = nil }, "process.args", "no program"},
		{"no user namespace", base, func(c *planCase) { c.share(specs.UserNamespace) }, "linux.namespaces", "no user namespace"},
		{"no mount namespace", base, func(c *planCase) { c.share(specs.MountNamespace) }, "linux.namespaces", "no mount namespace"},
		{"no linux", base, func(c *planCase) { c.spec.Linux = nil }, "linux.namespaces", "no user namespace"},
		{"hostname of the host", base, func(c *planCase) { c.share(specs.UTSNamespace); c.spec.Hostname = "x" }, "hostname", "uts namespace is the host's"},
		{"uid", base, func(c *planCase) { c.as(70000, 0) }, "--user", "uid 70000 isn't in the container's map"},
		{"gid", base, func(c *planCase) { c.as(0, 70000) }, "--user", "gid 70000 isn't in the container's map"},
		{"group", base, func(c *planCase) { c.spec.Process.User.AdditionalGids = []uint32{70000} }, "process.user.additionalGids", "gid 70000"},
		{"another user of a single map", base, func(c *planCase) { c.opts.Map.Mode = userns.Single; c.as(1000, 1000) }, "--user", "0 1000 1"},
		{"keep groups and a gid", base, func(c *planCase) { c.as(0, 5); c.opts.KeepGroups = true }, "--keep-groups", "another group"},
		{"keep groups and groups", base, func(c *planCase) {
			c.spec.Process.User.AdditionalGids, c.opts.KeepGroups = []uint32{5}, true
		}, "--keep-groups", "another group"},
		{"groups where setgroups is denied", base, func(c *planCase) {
			c.opts.Map.Mode, c.spec.Process.User.AdditionalGids = userns.Single, []uint32{0}
		}, "process.user.additionalGids", "setgroups(2) is denied"},
		{"a hard limit above ours", base, func(c *planCase) {
			c.spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: 1 << 30}}
		}, "process.rlimits RLIMIT_NOFILE", "hard limit of this process is 524288"},
		{"an unlimited one", base, func(c *planCase) {
			c.spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: unix.RLIM_INFINITY}}
		}, "process.rlimits RLIMIT_NOFILE", "unlimited asked for"},
		{"root with --upper", root, func(c *planCase) { c.opts.Root.Upper = "/up" }, "--upper, --lower", "idmaps its root"},
		{"root with --lower", root, func(c *planCase) { c.opts.Root.Lower = []string{"/l"} }, "--upper, --lower", "idmaps its root"},
		{"options longer than a page", base, func(c *planCase) {
			c.facts.Features.PerLayer = false
			c.opts.Root.Lower = slices.Repeat([]string{"/" + strings.Repeat("x", 200)}, 30)
		}, "--lower", "before Linux 6.7"},
		{"a mount over the root", base, func(c *planCase) {
			c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "/x/..", Type: "tmpfs"})
		}, "mount at /x/..", "absolute path below /"},
		{"a relative mount", base, func(c *planCase) {
			c.spec.Mounts = append(c.spec.Mounts, specs.Mount{Destination: "x", Type: "tmpfs"})
		}, "mount at x", "absolute path below /"},
		{"mqueue of the host", base, func(c *planCase) {
			c.share(specs.IPCNamespace)
			c.spec.Mounts = DefaultSpec().Mounts
		}, "mount at /dev/mqueue", "ipc namespace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.make()
			test.change(&c)
			plan, err := Compile(c.spec, c.opts, c.facts)
			var request *RequestError
			if plan != nil || !errors.As(err, &request) {
				t.Fatalf("plan %v, error %v", plan != nil, err)
			}
			if request.What != test.what || !strings.Contains(request.Cause, test.cause) {
				t.Errorf("%+v\nwant %q with %q", request, test.what, test.cause)
			}
			if !strings.HasPrefix(err.Error(), test.what+": ") {
				t.Errorf("the error doesn't begin with what was asked for: %v", err)
			}
		})
	}
}

// A kernel that is too old is refused by the version that is needed.
func TestCompileRefusesOldKernel(t *testing.T) {
	for _, root := range []Root{folderRoot, hostRoot, {Kind: RootReadOnly, Path: "/r"}, {Kind: RootDirect, Path: "/r"}} {
		c := planCaseOf("", oldKernel("5.10.0", false), root, userns.Auto)
		_, err := Compile(c.spec, c.opts, c.facts)
		var old *nsexec.UnsupportedError
		if !errors.As(err, &old) || old.Since != "5.12" || !errors.Is(err, unix.ENOSYS) || !strings.Contains(err.Error(), "5.10.0") {
			t.Errorf("%s: %v", root.Kind, err)
		}
	}
}

// Errors of the packages below come through with their type.
func TestCompileErrorTypes(t *testing.T) {
	c := planCaseOf("", userFacts(), folderRoot, userns.Auto)
	c.facts.IDs.SubUID, c.facts.IDs.SubGID = nil, nil
	_, err := Compile(c.spec, c.opts, c.facts)
	var plan *userns.PlanError
	if !errors.As(err, &plan) || plan.Reason != userns.ReasonNoSubUIDs {
		t.Error(err)
	}
	c = planCaseOf("", userFacts(), folderRoot, userns.Auto)
	c.spec.Mounts[0].Options = []string{"remount"}
	_, err = Compile(c.spec, c.opts, c.facts)
	var field *UnsupportedFieldError
	if !errors.As(err, &field) || field.Path != "mounts[0].options[0]" {
		t.Error(err)
	}
}

// Several faults are told at once.
func TestCompileTellsAllFaults(t *testing.T) {
	c := planCaseOf("", rootFacts(), folderRoot, userns.Auto)
	c.as(70000, 70000)
	c.opts.Root.Upper = "/up"
	c.spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: 1 << 30}}
	_, err := Compile(c.spec, c.opts, c.facts)
	for _, want := range []string{"uid 70000", "RLIMIT_NOFILE", "--upper"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, test := range []struct {
		kernel string
		want   bool
	}{{"5.12.0", true}, {"5.11.99-generic", false}, {"6.1.0", true}, {"5.9", false}, {"5.100.0-rc1", true}, {"10.0", true}, {"", false}, {"next", false}, {"5", false}} {
		if got := (&Facts{Kernel: test.kernel}).atLeast(5, 12); got != test.want {
			t.Errorf("%q is at least 5.12: %v", test.kernel, got)
		}
	}
}

// What the program is warned of stands in the notes too.
func TestWarningsAreNotes(t *testing.T) {
	for _, test := range []struct {
		want   string
		change func(c *planCase)
	}{
		{"could not be dropped", func(c *planCase) { c.opts.Map.Mode = userns.Single }},
		{"--keep-groups", func(c *planCase) { c.opts.KeepGroups = true }},
		{"/etc is read-only", func(c *planCase) { c.opts.Root, c.facts.Under = hostRoot, []string{"/etc/hosts"} }},
		{"process.terminal", func(c *planCase) { c.spec.Process.Terminal = true }},
	} {
		plan := planCaseOf("", userFacts(), folderRoot, userns.Auto).with(test.change).compile(t)
		if len(plan.Warnings()) != 1 || !strings.Contains(plan.Warnings()[0], test.want) || !slices.Contains(plan.Notes, plan.Warnings()[0]) {
			t.Errorf("warnings %q, want %q; notes %q", plan.Warnings(), test.want, plan.Notes)
		}
	}
	if plan := planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t); len(plan.Warnings()) != 0 {
		t.Errorf("warned of nothing special: %q", plan.Warnings())
	}
}

// For every map and user: gates and the dumpable flag agree with the ids that
// the child takes, each id exists inside, and the end is who was asked for.
func TestIDsAndGates(t *testing.T) {
	spec := func(uids, gids string) userns.Request {
		u, err1 := userns.ParseExtents(uids)
		g, err2 := userns.ParseExtents(gids)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return userns.Request{Mode: userns.Spec, UID: u, GID: g}
	}
	maps := []userns.Request{{Mode: userns.Auto}, {Mode: userns.Single}, {Mode: userns.Host},
		spec("0:100000:2000", "0:100000:2000"),                    // without our own ids
		spec("5:100000:2000", "5:100000:2000"),                    // without a root
		spec("1000:1000:1,5:100000:3", "1000:1000:1,5:100000:3"),  // us as ourselves
		spec("0:100000:1,1000:1000:1", "7:1000:1,1000:100000:10"), // a root without its group
		spec("0:1000:1", "0:100000:10,1000:1000:1"),               // root, but for the group
	}
	planned := 0
	for _, facts := range []func() *Facts{userFacts, rootFacts} {
		for _, request := range maps {
			for _, user := range []*specs.User{nil, {}, {UID: 1000, GID: 1000}, {UID: 5, GID: 7}, {UID: 1000}, {GID: 1000}} {
				c := planCaseOf(fmt.Sprint(request, user), facts(), folderRoot, userns.Auto)
				c.opts.Map = request
				if user != nil {
					c.as(user.UID, user.GID)
				}
				if _, err := Compile(c.spec, c.opts, c.facts); err != nil {
					continue // not in the map: TestCompileRefuses
				}
				planned++
				checkIDs(t, c)
			}
		}
	}
	if planned < 40 {
		t.Errorf("only %d plans", planned)
	}
}

// identityWalk is what the child is while it goes through its program.
type identityWalk struct {
	uid, gid        uint32 // inside; overflow when they have no name there
	changed, signal bool   // ids were changed; PR_SET_PDEATHSIG was set again since
	gates           []string
}

func checkIDs(t *testing.T, c planCase) {
	t.Helper()
	plan := c.compile(t)
	who := identityWalk{uid: 65534, gid: 65534}
	if id, ok := plan.Maps.UID.ToInside(c.facts.IDs.UID); ok {
		who.uid = id
	}
	if id, ok := plan.Maps.GID.ToInside(c.facts.IDs.GID); ok {
		who.gid = id
	}
	for _, s := range plan.Child {
		if fault := who.step(s, plan); fault != "" {
			t.Errorf("%s: %s: %s\n%s", c.name, s, fault, plan)
		}
	}
	want := []string{"gate: maps"}
	if who.changed {
		want = append(want, "gate: credentials")
	}
	if !slices.Equal(who.gates, want) || plan.DropsDumpable != who.changed || !who.signal {
		t.Errorf("%s: ids changed %v, gates %q, DropsDumpable %v, dies with the launcher %v", c.name, who.changed, who.gates, plan.DropsDumpable, who.signal)
	}
	if user := c.spec.Process.User; !c.opts.AnyUser && (who.uid != user.UID || who.gid != user.GID) {
		t.Errorf("%s: the program runs as %d:%d", c.name, who.uid, who.gid)
	}
	if _, ok := plan.Maps.UID.ToOutside(who.uid); !ok {
		t.Errorf("%s: the program runs as uid %d, which doesn't exist inside", c.name, who.uid)
	}
}

func (w *identityWalk) step(s nsexec.Step, plan *Plan) string {
	switch s.Call {
	case unix.SYS_READ:
		if strings.HasPrefix(s.Name, "gate: ") {
			w.gates = append(w.gates, s.Name)
		}
	case unix.SYS_PRCTL:
		w.signal = w.signal || s.Args[0].Value == unix.PR_SET_PDEATHSIG
	case unix.SYS_SETRESUID:
		w.uid = uint32(s.Args[0].Value)
		return w.change(plan.Maps.UID, w.uid)
	case unix.SYS_SETRESGID:
		w.gid = uint32(s.Args[0].Value)
		return w.change(plan.Maps.GID, w.gid)
	}
	return ""
}

func (w *identityWalk) change(m userns.IDMap, id uint32) string {
	w.changed, w.signal = true, false
	switch _, ok := m.ToOutside(id); {
	case !ok:
		return "this id doesn't exist inside"
	case !slices.Contains(w.gates, "gate: maps"):
		return "ids are changed before the maps are there"
	case !slices.Contains(w.gates, "gate: credentials"):
		return "ids are changed before the gate for it"
	}
	return ""
}

// The launcher's memory is guarded first and the program gets its own limits last.
func TestOrderOfPhases(t *testing.T) {
	phases := []string{"die with the launcher", "no core dump", "keep the lifeline", "close all other fds", "stop propagation",
		"gate: maps", "make it the root", "prove that the old root is gone", "capabilities", "no new privileges",
		"check that the launcher lives", "close the rest at execve", "unblock signals", "look at ", "RLIMIT_CORE", "execute "}
	for _, c := range moreCases(t) {
		child, last := c.compile(t).Child, -1
		for _, name := range phases {
			at := slices.IndexFunc(child, func(s nsexec.Step) bool { return strings.HasPrefix(s.Name, name) })
			if at <= last {
				t.Errorf("%s: %q is step %d, behind step %d", c.name, name, at+1, last+1)
			}
			last = at
		}
		for _, s := range child[last:] {
			if s.Call != unix.SYS_EXECVE {
				t.Errorf("%s: %s behind the first execve", c.name, s)
			}
		}
	}
}

// execvp(3): a program with a slash is executed as it is, else PATH is searched.
func TestCandidates(t *testing.T) {
	for _, test := range []struct {
		program string
		env     []string
		want    []string
	}{
		{"/bin/sh", []string{"PATH=/x"}, []string{"/bin/sh"}},
		{"./a", nil, []string{"./a"}},
		{"a", []string{"PATH=/x:/y/"}, []string{"/x/a", "/y/a"}},
		{"a", []string{"PATH=/x::/"}, []string{"/x/a", "./a", "/a"}},
		{"a", []string{"PATH="}, []string{"./a"}},
		{"a", []string{"PATH=/x", "PATH=/y"}, []string{"/y/a"}},
		{"a", []string{"XPATH=/x"}, []string{"/usr/local/sbin/a", "/usr/local/bin/a", "/usr/sbin/a", "/usr/bin/a", "/sbin/a", "/bin/a"}},
	} {
		if got := candidates(test.program, test.env); !slices.Equal(got, test.want) {
			t.Errorf("%q with %q: %q, want %q", test.program, test.env, got, test.want)
		}
	}
}

// An option that names an id without a place in the map would be EINVAL
// (lxc/lxc#2272).
func TestUnmappedMountOptions(t *testing.T) {
	plan := planCaseOf("", userFacts(), folderRoot, userns.Single).compile(t)
	if text := plan.String(); strings.Contains(text, `"gid", "5"`) || !strings.Contains(text, "/dev/pts: the option gid=5 was left out") {
		t.Error(text)
	}
	plan = planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t)
	if text := plan.String(); !strings.Contains(text, `"gid", "5"`) {
		t.Error(text)
	}
}
