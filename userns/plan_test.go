package userns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var everyID = IDMap{{0, 0, 4294967295}}

func goodTool(name string) Tool {
	return Tool{Name: name, Found: true, Path: "/usr/bin/" + name, Mode: 0o4755}
}

// alice is an ordinary user with one range of each kind.
func alice() *Facts {
	return &Facts{UID: 1000, GID: 1000, User: "alice", UIDMap: everyID, GIDMap: everyID, Setgroups: "allow",
		SubUID:    []Range{{100000, 65536, "/etc/subuid line 1 (by name)"}},
		SubGID:    []Range{{100000, 65536, "/etc/subgid line 1 (by name)"}},
		NewUIDMap: goodTool("newuidmap"), NewGIDMap: goodTool("newgidmap")}
}

// root is real root without sub-ids.
func root() *Facts {
	return &Facts{User: "root", UIDMap: everyID, GIDMap: everyID, Setgroups: "allow", Privileged: true, SetFCap: true,
		FreeRange: &Range{655360, 65536, "free"}, NewUIDMap: Tool{Name: "newuidmap"}, NewGIDMap: Tool{Name: "newgidmap"}}
}

// nested is the root of a container made for alice, as seen from inside.
func nested() *Facts {
	f := root()
	f.UIDMap, f.GIDMap, f.FreeRange = IDMap{{0, 1000, 1}, {1, 100000, 65536}}, IDMap{{0, 1000, 1}, {1, 100000, 65536}}, nil
	return f
}

func with(f *Facts, change func(*Facts)) *Facts {
	change(f)
	return f
}

// show is a mapping in one line: uid map, its writer, gid map, its writer, setgroups.
func show(m Mapping) string {
	text := fmt.Sprintf("%s by %s; %s by %s; setgroups %s", strings.Fields(m.UID.String()), m.UIDWriter,
		strings.Fields(m.GID.String()), m.GIDWriter, m.Setgroups)
	if m.DenySetgroups {
		text += ", written"
	}
	return text
}

func planned(t *testing.T, flag string, f *Facts) (Mapping, error) {
	t.Helper()
	req, err := ParseRequest(flag)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(f)
	m, planErr := PlanMaps(req, f)
	if after, _ := json.Marshal(f); string(before) != string(after) {
		t.Error("PlanMaps changed the facts")
	}
	return m, planErr
}

func TestPlanMaps(t *testing.T) {
	const helpers = "[0 1000 1 1 100000 65536] by /usr/bin/newuidmap; [0 1000 1 1 100000 65536] by /usr/bin/newgidmap; setgroups allow"
	const single = "[0 1000 1] by direct; [0 1000 1] by direct; setgroups deny, written"
	for _, c := range []struct {
		name, flag string
		facts      *Facts
		want       string
	}{
		{"auto", "auto", alice(), helpers},
		{"one sub-id gives two ids (util-linux/util-linux#4457)", "auto", with(alice(), func(f *Facts) {
			f.SubUID[0].Count, f.SubGID[0].Count = 1, 1
		}), "[0 1000 1 1 100000 1] by /usr/bin/newuidmap; [0 1000 1 1 100000 1] by /usr/bin/newgidmap; setgroups allow"},
		{"all ranges, in order, uids and gids apart (util-linux/util-linux#4457)", "auto", with(alice(), func(f *Facts) {
			f.SubUID = append(f.SubUID, Range{300000, 10, "b"}, Range{200000, 5, "c"})
		}), "[0 1000 1 1 100000 65536 65537 300000 10 65547 200000 5] by /usr/bin/newuidmap; [0 1000 1 1 100000 65536] by /usr/bin/newgidmap; setgroups allow"},
		{"a spec that is the same", "0:1000:1,1:100000:65536", alice(), helpers},
		{"single (golang/go#10626)", "single", alice(), single},
		{"single without helpers and ranges (containers/crun#1088)", "single", with(alice(), func(f *Facts) {
			f.SubUID, f.SubGID, f.NewUIDMap, f.NewGIDMap = nil, nil, Tool{}, Tool{}
		}), single},
		{"single as a spec needs no helper (golang/go#50098)", "0:1000:1", with(alice(), func(f *Facts) {
			f.NewUIDMap, f.NewGIDMap = Tool{}, Tool{}
		}), single},
		{"setgroups already denied (util-linux/util-linux#3553)", "single", with(alice(), func(f *Facts) { f.Setgroups = "deny" }),
			"[0 1000 1] by direct; [0 1000 1] by direct; setgroups deny"},
		{"host as a user is the own id", "host", alice(), "[1000 1000 1] by direct; [1000 1000 1] by direct; setgroups deny, written"},
		{"more than 65534 ids (containerd/containerd#1610)", "auto", with(alice(), func(f *Facts) {
			f.SubUID[0].Count, f.SubGID[0].Count = 70000, 70000
		}), "[0 1000 1 1 100000 70000] by /usr/bin/newuidmap; [0 1000 1 1 100000 70000] by /usr/bin/newgidmap; setgroups allow"},
		{"root: free range, no helper", "auto", root(), "[0 655360 65536] by direct; [0 655360 65536] by direct; setgroups allow"},
		{"root: own sub-ids", "auto", with(root(), func(f *Facts) {
			f.SubUID, f.SubGID, f.FreeRange = []Range{{1, 9, "u"}}, []Range{{2, 9, "g"}, {20, 1, "h"}}, nil
		}), "[0 1 9] by direct; [0 2 9 9 20 1] by direct; setgroups allow"},
		{"root: any spec, no /etc/subuid (shadow-maint/shadow#141)", "0:100000:65536", root(),
			"[0 100000 65536] by direct; [0 100000 65536] by direct; setgroups allow"},
		{"root: single keeps setgroups (golang/go#10626)", "single", root(), "[0 0 1] by direct; [0 0 1] by direct; setgroups allow"},
		{"root: host", "host", root(), "[0 0 4294967295] by direct; [0 0 4294967295] by direct; setgroups allow"},
		{"nested: host is what exists (util-linux/util-linux#3120)", "host", nested(),
			"[0 0 1 1 1 65536] by direct; [0 0 1 1 1 65536] by direct; setgroups allow"},
		{"nested: split (podman-container-tools/podman#8816)", "0:0:100", nested(),
			"[0 0 1 1 1 99] by direct; [0 0 1 1 1 99] by direct; setgroups allow"},
		{"nested: delegated ids split too (podman-container-tools/podman#8816)", "auto", with(alice(), func(f *Facts) {
			f.UIDMap = IDMap{{0, 0, 100010}, {100010, 200010, 100000}}
		}), "[0 1000 1 1 100000 10 11 100010 65526] by /usr/bin/newuidmap; [0 1000 1 1 100000 65536] by /usr/bin/newgidmap; setgroups allow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := planned(t, c.flag, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(m); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestPlanMapsRefuses(t *testing.T) {
	badTool := Tool{Name: "newuidmap", Found: true, Path: "/opt/newuidmap", UID: 1000, Mode: 0o755}
	const single = "--map single"
	for _, c := range []struct {
		name, flag string
		facts      *Facts
		reason     Reason
		words      []string
	}{
		{"no ranges", "auto", with(alice(), func(f *Facts) { f.SubUID, f.SubGID = nil, nil }), ReasonNoSubUIDs, []string{
			`"alice" (uid 1000) has no subordinate uids`, "/etc/subuid", "/etc/subgid", single,
			"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 alice", `"alice:100000:65536"`}},
		{"no gid range, others' ranges known", "auto", with(alice(), func(f *Facts) { f.SubGID, f.NextSubID = nil, 231072 }), ReasonNoSubGIDs,
			[]string{"subordinate gids", "usermod --add-subgids 231072-296607 alice", single}},
		{"newgidmap alone missing (containers/crun#1088)", "auto", with(alice(), func(f *Facts) { f.NewGIDMap = Tool{Searched: []string{"/usr/bin"}} }),
			ReasonNoNewGIDMap, []string{"newgidmap is not installed (looked in /usr/bin)", "uidmap", single}},
		{"newuidmap alone missing (containers/crun#1088)", "auto", with(alice(), func(f *Facts) { f.NewUIDMap = Tool{} }),
			ReasonNoNewUIDMap, []string{"newuidmap is not installed", "uidmap", single}},
		{"both missing (containers/crun#1088)", "auto", with(alice(), func(f *Facts) { f.NewUIDMap, f.NewGIDMap = Tool{}, Tool{} }),
			ReasonNoNewUIDMap, []string{"newuidmap is not installed", "newgidmap is not installed"}},
		{"helper lost its bits (rootless-containers/rootlesskit#404)", "auto", with(alice(), func(f *Facts) { f.NewUIDMap = badTool }),
			ReasonUIDMapTool, []string{"/opt/newuidmap (owner uid 1000, mode 0755)", "no set-uid bit and no file capability CAP_SETUID", single}},
		{"no_new_privs", "auto", with(alice(), func(f *Facts) { f.NoNewPrivs = true }), ReasonUIDMapTool, []string{"no_new_privs is set", single}},
		{"bounding set", "auto", with(alice(), func(f *Facts) { f.Unbounded = []string{"CAP_SETGID"} }), ReasonGIDMapTool, []string{"lacks CAP_SETGID"}},
		{"not the primary group", "auto", with(alice(), func(f *Facts) { f.Barred = "gid 100" }), ReasonUIDMapTool, []string{"gid 100"}},
		{"own id delegated as well (util-linux/util-linux#3838)", "auto", with(alice(), func(f *Facts) { f.SubUID[0].Start = 1000 }),
			ReasonOverlap, []string{"own uid", "/etc/subuid line 1 (by name)"}},
		{"ranges overlap (util-linux/util-linux#3838)", "auto", with(alice(), func(f *Facts) {
			f.SubGID = append(f.SubGID, Range{165535, 5, "/etc/subgid line 7 (by uid)"})
		}), ReasonOverlap, []string{"/etc/subgid line 1 (by name)", "/etc/subgid line 7 (by uid)", "165535 are in both"}},
		{"spec overlaps (util-linux/util-linux#3838)", "0:1000:1,0:100000:5", alice(), ReasonOverlap, []string{"uid map line 2 (0:100000:5)"}},
		{"own id twice", "0:1000:1,1:1000:1", alice(), ReasonOverlap, []string{"line 2"}},
		{"not delegated", "0:1000:1,1:100000:65530,65531:165530:10", alice(), ReasonNotOurs,
			[]string{"uid map line 3 (65531:165530:10)", "165536-165539", "/etc/subuid line 1 (by name)", "1000 (own uid"}},
		{"own id joined with others", "0:1000:2", alice(), ReasonNotOurs, []string{"line 1 (0:1000:2)", "uids 1000-1001"}},
		{"spec without ranges", "0:1000:1,1:100000:5", with(alice(), func(f *Facts) { f.SubUID = nil }), ReasonNoSubUIDs, []string{"line 2 (1:100000:5)"}},
		{"user whose ranges don't exist here (moby/buildkit#3297)", "auto", with(alice(), func(f *Facts) {
			f.UIDMap = IDMap{{0, 0, 1001}}
		}), ReasonNotInParent, []string{"uid map line 2: ids 100000-165535 don't exist in this namespace, which has 0-1000", single}},
		{"nested root (moby/buildkit#3297)", "0:100000:65536", nested(), ReasonNotInParent,
			[]string{"line 1: ids 100000-165535", "which has 0, 1-65536", "--map host", single}},
		{"nested root, auto (moby/buildkit#3297, util-linux/util-linux#3120)", "auto", nested(), ReasonNoFreeRange,
			[]string{"this namespace has 0, 1-65536", "--map host", single, "start the outer one"}},
		{"nested root with sub-ids that don't exist", "auto", with(nested(), func(f *Facts) {
			f.SubUID, f.SubGID = alice().SubUID, alice().SubGID
		}), ReasonNotInParent, []string{"ids 100000-165535"}},
		{"CAP_SETFCAP", "host", with(root(), func(f *Facts) { f.SetFCap = false }), ReasonNoSetFCap, []string{"5.12"}},
		{"limits after splitting (opencontainers/runtime-spec#693)", "0:0:400", with(root(), func(f *Facts) {
			f.UIDMap = lines(400, 5)
		}), ReasonTooManyLines, []string{"340 lines", "after splitting"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := planned(t, c.flag, c.facts)
			if err == nil {
				t.Fatalf("planned %s", show(m))
			}
			wantPlanError(t, err, c.reason, c.words...)
		})
	}
}

// A saved facts file may hold a range that no machine has.
func TestPlanAutoWraps(t *testing.T) {
	f := with(alice(), func(f *Facts) { f.SubUID = []Range{{2000, 4294967295, "a"}} })
	_, err := PlanMaps(Request{Mode: Auto}, f)
	wantPlanError(t, err, ReasonWrap, "uid map line 2")
}

// --uid-map alone: the gid side follows --map.
func TestPlanExplicitSide(t *testing.T) {
	m, err := PlanMaps(Request{Mode: Auto, UID: IDMap{{5, 1000, 1}}}, alice())
	if err != nil {
		t.Fatal(err)
	}
	want := "[5 1000 1] by direct; [0 1000 1 1 100000 65536] by /usr/bin/newgidmap; setgroups allow"
	if got := show(m); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, err = PlanMaps(Request{Mode: Spec, UID: IDMap{{5, 1000, 1}}}, alice())
	wantPlanError(t, err, ReasonBadRequest, "--gid-map")
	_, err = PlanMaps(Request{Mode: Auto, UID: IDMap{}}, alice())
	wantPlanError(t, err, ReasonEmpty)
}

// What a reader of the result needs: where ids came from, and what was passed over.
func TestPlanNotes(t *testing.T) {
	f := alice()
	f.Notes = []string{"getsubids failed"}
	f.NewUIDMap.PassedOver = []string{"/home/alice/bin/newuidmap (owner uid 1000, mode 0755) can't"}
	m, err := PlanMaps(Request{Mode: Auto}, f)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"getsubids failed",
		"uids 1-65536 inside are 100000-165535 (/etc/subuid line 1 (by name))",
		"used /usr/bin/newuidmap; passed over: /home/alice/bin/newuidmap (owner uid 1000, mode 0755) can't",
		"gids 1-65536 inside are 100000-165535 (/etc/subgid line 1 (by name))"}
	if !reflect.DeepEqual(m.Notes, want) {
		t.Errorf("got  %q\nwant %q", m.Notes, want)
	}
}

// Facts that were saved plan like the machine they were read on.
func TestFactsJSON(t *testing.T) {
	for _, f := range []*Facts{alice(), root(), nested()} {
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back Facts
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(*f, back) {
			t.Errorf("%s: %+v, %v", data, back, err)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for _, text := range []string{"", "spec", "none", "0:0", "0:0:1,", "auto,0:0:1"} {
		if req, err := ParseRequest(text); err == nil {
			t.Errorf("%q: %+v", text, req)
		}
	}
	req, err := ParseRequest("0:1000:1,1:100000:5")
	if err != nil || req.Mode != Spec || req.UID.String() != req.GID.String() || len(req.UID) != 2 {
		t.Errorf("%+v, %v", req, err)
	}
}

// A user with one range of 65,536 sub-ids gets 65,537 ids: himself as root, and the range after it.
func ExamplePlanMaps() {
	facts := &Facts{
		UID: 1000, GID: 1000, User: "alice", Setgroups: "allow",
		UIDMap:    IDMap{{0, 0, 4294967295}},
		GIDMap:    IDMap{{0, 0, 4294967295}},
		SubUID:    []Range{{100000, 65536, "/etc/subuid line 1 (by name)"}},
		SubGID:    []Range{{100000, 65536, "/etc/subgid line 1 (by name)"}},
		NewUIDMap: Tool{Found: true, Path: "/usr/bin/newuidmap", UID: 0, Mode: 0o4755},
		NewGIDMap: Tool{Found: true, Path: "/usr/bin/newgidmap", UID: 0, Mode: 0o4755},
	}
	mapping, err := PlanMaps(Request{Mode: Auto}, facts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(mapping.UID)
	fmt.Println("written by", mapping.UIDWriter)
	for _, note := range mapping.Notes {
		fmt.Println(note)
	}
	// Output:
	// 0 1000 1
	// 1 100000 65536
	// written by /usr/bin/newuidmap
	// uids 1-65536 inside are 100000-165535 (/etc/subuid line 1 (by name))
	// gids 1-65536 inside are 100000-165535 (/etc/subgid line 1 (by name))
}
