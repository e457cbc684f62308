package cgroup

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// saved reads a saved facts file: those in testdata are of real machines.
func saved(t *testing.T, name string) *Facts {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".facts.json")
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{}
	if err := json.Unmarshal(text, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// What would be done, and said, on other machines: a plan for each.
func TestPlanGolden(t *testing.T) {
	all := limits(t, Flags{Memory: "64m", CPUs: "0.5", Pids: "20"})
	own := func(f *Facts) *Folder { return &f.v2().Chain[0] }
	without := func(list []string, name string) []string {
		var kept []string
		for _, s := range list {
			if s != name {
				kept = append(kept, s)
			}
		}
		return kept
	}
	noCPU := func(f *Facts) { // user@1000.service isn't given cpu
		for _, chain := range [][]Folder{f.v2().Chain, f.Bus.Chain} {
			for i, folder := range chain {
				switch name := folder.Path; {
				case strings.Contains(name, "user@1000.service"):
					chain[i].Controllers, chain[i].Enabled = without(folder.Controllers, "cpu"), without(folder.Enabled, "cpu")
				case strings.HasSuffix(name, "user-1000.slice"):
					chain[i].Enabled = without(folder.Enabled, "cpu")
				}
			}
		}
	}
	for _, test := range []struct {
		name, facts string
		change      func(f *Facts)
		wish        Wish
	}{
		{"v2-delegated", "v2-delegated", nil, Wish{}},
		// google/nsjail#208: the launcher alone is in the way
		{"v2-alone", "v2-delegated", func(f *Facts) { own(f).Others = 0 }, Wish{}},
		{"v2-moved-before", "v2-delegated", func(f *Facts) {
			leaf := *own(f)
			leaf.Path, leaf.Others = leaf.Path+"/"+leafPrefix+"4242-19", 0
			own(f).Others, own(f).Enabled = 0, own(f).Controllers
			f.v2().Chain = append([]Folder{leaf}, f.v2().Chain...)
		}, Wish{}},
		{"v2-writable", "v2-delegated", nil, Wish{Writable: true}},
		{"systemd-user", "systemd-user", nil, Wish{}},
		{"systemd-writable", "systemd-user", nil, Wish{Writable: true}},
		{"systemd-direct", "systemd-user", nil, Wish{Manager: Direct}},
		{"login-session", "login-session", nil, Wish{}},
		// systemd/systemd#3500
		{"login-direct", "login-session", nil, Wish{Manager: Direct}},
		{"login-no-manager", "login-session", func(f *Facts) { f.Bus = Bus{Systemd: true} }, Wish{}},
		// rootless-containers/rootlesskit#282
		{"cpu-not-delegated", "login-session", noCPU, Wish{}},
		{"cpu-not-delegated-try", "login-session", noCPU, Wish{Mode: Try}},
		// containers/crun#1134: a system service with a delegated cgroup needs no bus
		{"service", "v2-delegated", func(f *Facts) {
			f.Bus.Systemd = true
			own(f).Others = 0
			own(f).Path, f.v2().Own = "/sys/fs/cgroup/system.slice/agent.service", "/system.slice/agent.service"
			f.v2().Chain = append(f.v2().Chain[:1], f.v2().Chain[5])
		}, Wish{}},
		// podman-container-tools/podman#5488
		{"namespace-mismatch", "v2-delegated", func(f *Facts) {
			f.v2().Missing, f.v2().Chain = "our cgroup is /machine.slice/outer.scope, and there is no /sys/fs/cgroup/machine.slice/outer.scope", nil
		}, Wish{}},
		{"no-cgroupfs", "v2-delegated", func(f *Facts) { f.Tree, f.Hierarchies = NoTree, nil }, Wish{}},
		{"read-only", "v2-delegated", func(f *Facts) {
			for i := range f.v2().Chain {
				f.v2().Chain[i] = Folder{Path: f.v2().Chain[i].Path, Denied: "mkdir: EROFS", Type: "domain", Controllers: own(f).Controllers}
			}
		}, Wish{}},
		{"outer-container", "v2-delegated", func(f *Facts) {
			f.UID, f.v2().Own = 0, "/"
			own(f).Path, own(f).Others = "/sys/fs/cgroup", 2
			f.v2().Chain = f.v2().Chain[:1]
		}, Wish{}},
		{"root-at-the-top", "v2-delegated", func(f *Facts) {
			f.UID, f.v2().Own = 0, "/"
			top := f.v2().Chain[5]
			top.Mkdir, top.Attach, top.Enable, top.Denied, top.Enabled, top.Others = true, true, true, "", nil, 90
			f.v2().Chain = []Folder{top}
		}, Wish{}},
		{"escapes-limit", "v2-delegated", func(f *Facts) { own(f).Values["memory.max"] = "1073741824" }, Wish{}},
		{"escapes-limit-named", "v2-delegated", func(f *Facts) {
			own(f).Values["memory.max"] = "1073741824"
			f.v2().Named = f.v2().Chain[1:]
		}, Wish{Parent: "/user.slice/user-1000.slice/user@1000.service/app.slice"}},
		{"tighter-above", "v2-delegated", func(f *Facts) {
			f.v2().Chain[1].Values["memory.max"] = "33554432"
			f.v2().Chain[2].Values["cpu.max"] = "20000 100000"
		}, Wish{}},
		// what is kept for a cgroup is no more than what is kept for the one above
		{"protection", "v2-delegated", func(f *Facts) { f.v2().Chain[1].Values["memory.low"] = "0" }, Wish{Limits: limits(t, Flags{MemoryLow: "32m"})}},
		{"writable-alone", "v2-delegated", nil, Wish{Limits: Limits{}, Writable: true}},
		{"threaded", "v2-delegated", func(f *Facts) { own(f).Type, f.v2().Chain = "threaded", f.v2().Chain[:1] }, Wish{}},
		{"named-outside", "login-session", func(f *Facts) {
			f.v2().Named = []Folder{{Path: f.Bus.Chain[0].Path + "/app.slice", Mkdir: true, Attach: true}}
		}, Wish{Parent: "/user.slice/user-1000.slice/user@1000.service/app.slice"}},
		{"named-missing", "v2-delegated", nil, Wish{Parent: "mine"}},
		{"v1-not-delegated", "v1-hybrid", nil, Wish{}},
		{"v1-top-not-delegated", "v1-hybrid", func(f *Facts) { // the remedy names the folder from the top
			for i, h := range f.Hierarchies {
				f.Hierarchies[i].Named = []Folder{{Path: h.Mount, Denied: "mkdir: EACCES"}}
			}
		}, Wish{Parent: "/", Limits: limits(t, Flags{Memory: "64m"})}},
		{"v1-delegated", "v1-hybrid", giveV1, Wish{}},
		{"v1-memory-alone", "v1-hybrid", func(f *Facts) { giveV1(f); f.v1("cpu").Chain[0].Mkdir = false }, Wish{Mode: Try}},
		{"v1-named-elsewhere", "v1-hybrid", func(f *Facts) {
			for i, h := range f.Hierarchies {
				f.Hierarchies[i].Named = []Folder{{Path: h.Mount + "/mine", Mkdir: true, Attach: true}}
			}
			f.v1("memory").Chain[0].Values = map[string]string{"memory.limit_in_bytes": "1073741824"}
		}, Wish{Parent: "/mine"}},
		{"v1-cpuset", "v1-hybrid", func(f *Facts) {
			giveV1(f)
			f.v1("cpuset").Chain[0].Values = map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0"}
		}, Wish{Limits: limits(t, Flags{CPUSetCPUs: "1", MemoryHigh: "32m"}), Mode: Try}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := saved(t, test.facts)
			if test.change != nil {
				test.change(f)
			}
			if test.wish.Limits == nil {
				test.wish.Limits = all
			}
			text := ""
			if p, err := Compile(test.wish, f); err != nil {
				text = err.Error() + "\n"
			} else {
				text = p.String()
			}
			golden(t, "testdata/plan-"+test.name+".txt", text)
		})
	}
}

// giveV1 gives our own cgroup of every v1 hierarchy to us.
func giveV1(f *Facts) {
	for _, h := range f.Hierarchies {
		if h.Version == 1 && len(h.Chain) > 0 {
			h.Chain[0].Mkdir, h.Chain[0].Attach, h.Chain[0].Denied = true, true, ""
		}
	}
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
	if string(want) != got {
		t.Errorf("%s differs; see go test -update\n%s", path, got)
	}
}
