package nsexec

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write testdata anew")

// goldenPlan has every form of argument and policy, and nothing of this machine.
func goldenPlan() *Plan {
	lifeline := Int(3)
	return &Plan{
		Host: []HostStep{
			{Name: "lifeline", Op: OpPipe, Man: "pipe(2)", Why: "the child waits at its gates by reading from it"},
			{Name: "make the child", Op: OpClone, Flags: realFlags, Man: "clone(2)"},
			{Name: "newuidmap", Op: OpExec, Path: "/usr/bin/newuidmap", Argv: []string{"newuidmap", ChildPID, "0", "1000", "1"}, Man: "newuidmap(1)"},
			{Name: "write the gid map", Op: OpWrite, Path: "/proc/" + ChildPID + "/gid_map", Data: "0 1000 1\n", Man: "user_namespaces(7)"},
			{Name: "wait for the helper", Op: OpJoin, Data: "newuidmap", Man: "waitid(2)"},
			{Name: "open the gate", Op: OpGate, Data: GateMaps, Man: "write(2)"},
			{Name: "wait for execve", Op: OpRelease, Man: "futex(2)"},
		},
		Child: Program{
			deathSignal().Because("the container must not survive the launcher"),
			Dup3(Slot(Lifeline), lifeline, unix.O_CLOEXEC).Named("keep the lifeline").Allow("it has this number already", unix.EINVAL),
			WaitGate(lifeline, GateMaps),
			Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "").Named("mount proc"),
			Openat2(AtCWD(), "/", unix.O_PATH, unix.RESOLVE_IN_ROOT).As("root").Named("open the root"),
			Fchdir(Slot("root")).Named("enter it"),
			CheckLifeline(lifeline)[1],
			Execve("/bin/sh", []string{"sh", "-c", "echo <hello>"}, []string{"A=1"}).Named("execute"),
		},
		Notes: []string{"a note"},
		Fault: &Fault{Lane: LaneChild, Step: 3, Errno: unix.EPERM},
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; see go test -update\n%s", path, got)
	}
}

func TestPlanGolden(t *testing.T) {
	plan := goldenPlan()
	if err := plan.Validate(); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plan.txt", []byte(plan.String()))
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(plan); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plan.json", text.Bytes())
}

// A plan read back from JSON prints and works as the one that was written.
func TestPlanRoundTrip(t *testing.T) {
	for _, plan := range []*Plan{goldenPlan(), realPlan("/bin/true"), {Child: harmless()}} {
		data, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		back := new(Plan)
		if err := json.Unmarshal(data, back); err != nil {
			t.Fatal(err)
		}
		if plan.String() != back.String() {
			t.Errorf("written:\n%sread:\n%s", plan, back)
		}
		again, _ := json.Marshal(back)
		if !bytes.Equal(data, again) {
			t.Errorf("written:\n%s\nread and written:\n%s", data, again)
		}
		for i := range plan.Child {
			if a, b := plan.Child[i], back.Child[i]; !reflect.DeepEqual(a.Policy, b.Policy) || a.Call != b.Call || a.ManPage() != b.ManPage() {
				t.Errorf("step %d: %+v, %+v", i+1, a, b)
			}
		}
	}
	defer leaks(t)()
	data, _ := json.Marshal(realPlan("/bin/sh", "-c", "exit 9"))
	back := new(Plan)
	if err := json.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	if status := run(t, NewSpawner(), back); status.Code != 9 {
		t.Error(status)
	}
}

func FuzzPlanJSON(f *testing.F) {
	for _, plan := range []*Plan{goldenPlan(), realPlan("/bin/true"), execPlan("/bin/true")} {
		data, err := json.Marshal(plan)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{`{"child":[{"call":"syscall_9999","args":[{"int":-1}],"policy":{"expect":0}}]}`,
		`{"child":[{"call":"open","args":[{}]}]}`, `{"fault":{"errno":"errno 4095"}}`, `{"child":[{"call":"dup","args":[{"strs":["a"]}]}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan := new(Plan)
		if json.Unmarshal(data, plan) != nil {
			return
		}
		first, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		back := new(Plan)
		if err := json.Unmarshal(first, back); err != nil {
			t.Fatalf("%v in what was written:\n%s", err, first)
		}
		if second, _ := json.Marshal(back); !bytes.Equal(first, second) {
			t.Fatalf("first\n%s\nsecond\n%s", first, second)
		}
		if plan.Validate() == nil && plan.String() == "" {
			t.Fatal("no text")
		}
		if a, err := load(nil, plan.Child, map[string]uint64{Lifeline: 1}); err == nil {
			a.free()
		}
	})
}
