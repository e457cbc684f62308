package doctor

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/container"
	"wolffia.dev/userns"
)

var update = flag.Bool("update", false, "write testdata anew")

// tried is an attempt that worked.
func tried() Attempt { return Attempt{Tried: true} }

// good is a machine on which everything works: an ordinary user of a systemd
// machine, in a scope of his manager.
func good(t testing.TB) *Facts {
	t.Helper()
	text, err := os.ReadFile("../../cgroup/testdata/systemd-user.facts.json")
	if err != nil {
		t.Fatal(err)
	}
	groups := &cgroup.Facts{}
	if err := json.Unmarshal(text, groups); err != nil {
		t.Fatal(err)
	}
	tool := func(name string) userns.Tool {
		return userns.Tool{Name: name, Found: true, Path: "/usr/bin/" + name, Mode: 0o4755}
	}
	subs := func(file string) []userns.Range {
		return []userns.Range{{Start: 100000, Count: 65536, Source: file + " line 1 (by name)"}}
	}
	all := userns.IDMap{{Inside: 0, Outside: 0, Length: 4294967295}}
	return &Facts{
		Kernel: "6.12.0", UID: 1000,
		Policy: container.Policy{Exe: "/usr/local/bin/wolffia", Nproc: 60000,
			NamespaceLimits: []container.NamespaceLimit{{Sysctl: "user.max_user_namespaces", Max: 60000}}},
		Userns: tried(), Depth: 33, Mapped: tried(), Ptrace: tried(), Yama: "1",
		IDs: &userns.Facts{UID: 1000, GID: 1000, User: "user", UIDMap: all, GIDMap: all, Setgroups: "allow",
			SubUID: subs("/etc/subuid"), SubGID: subs("/etc/subgid"), NewUIDMap: tool("newuidmap"), NewGIDMap: tool("newgidmap")},
		FDs:      []Mechanism{{"vm", tried()}, {"fork", tried()}, {"ptrace", tried()}},
		Pidfd:    []Part{{"clone3(2)", "5.3", 0}, {"CLONE_PIDFD", "5.2", 0}, {"pidfd_open(2)", "5.3", 0}, {"pidfd_send_signal(2)", "5.1", 0}, {"waitid(P_PIDFD)", "5.4", 0}},
		MountAPI: tried(), Proc: tried(),
		Overlay: Overlay{Tmpfs: tried(), Disk: tried(), Folder: "/home/user", FSType: "ext4", Fuse: Binary{Name: "fuse-overlayfs"}},
		IDMap:   IDMap{Tmpfs: tried(), Home: tried(), Folder: "/home/user", FSType: "ext4"},
		Cgroups: groups, Netns: tried(), Tun: tried(),
		Drivers: []Binary{{"slirp4netns", "/usr/bin/slirp4netns", "slirp4netns version 1.2.0"}, {"pasta", "/usr/bin/pasta", "pasta 2024_12_11"}, {"vpnkit", "", ""}},
		Seccomp: tried(), Timens: Timens{tried(), true}, Keyring: tried(),
		Limits: []Limit{{"nofile", 1024, 524288}, {"nproc", 60000, 60000}, {"core", 0, unix.RLIM_INFINITY}, {"memlock", 8388608, 8388608}},
	}
}

func golden(t testing.TB, path, got string) {
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
