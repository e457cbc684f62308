package cgroup

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Tests of cgroup v2 run where a subtree is delegated to an ordinary user: in a
// virtual machine, which sets WOLFFIA_VM.

// onV2 probes, or skips: with WOLFFIA_VM nothing may be missing.
func onV2(t *testing.T, l Limits) *Facts {
	t.Helper()
	f, err := Probe(ProbeOptions{Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	if f.Tree != Unified {
		if os.Getenv("WOLFFIA_VM") != "" {
			t.Fatalf("WOLFFIA_VM is set, but /sys/fs/cgroup is %q", f.Tree)
		}
		t.Skipf("missing: a delegated cgroup v2 (here /sys/fs/cgroup is %q); runs in a virtual machine", f.Tree)
	}
	if _, err := Compile(Wish{Limits: l}, f); err != nil && os.Getenv("WOLFFIA_VM") == "" {
		t.Skipf("missing: a delegated cgroup v2: %v", err)
	}
	return f
}

// Where the placement is what this machine offers, and then the effects there.
func TestVMLimits(t *testing.T) {
	f := onV2(t, limits(t, Flags{Memory: "64m", CPUs: "0.5", Pids: "20"}))
	t.Run("placement", func(t *testing.T) {
		g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"})})
		own, where := f.v2().Chain[0], g.Folders()[0]
		want := Delegated
		if f.Bus.Manager == "user" && (!own.Mkdir || own.Others > 0) && !strings.HasPrefix(path.Base(own.Path), leafPrefix) {
			want = SystemdUser
		}
		if where.Placement != want {
			t.Errorf("%s at %s, want %s", where.Placement, where.Path, want)
		}
	})
	effects(t, "")
}

// The launcher moves itself and no other process (TracecatHQ/tracecat#3142,
// google/nsjail#208).
func TestVMOthersStay(t *testing.T) {
	l := limits(t, Flags{Memory: "64m"})
	f := onV2(t, l)
	own := f.v2().Chain[0].Path
	before := words(own + "/cgroup.procs")
	g := group(t, Wish{Limits: l})
	gone := slices.DeleteFunc(before, func(pid string) bool { return contains(words(own+"/cgroup.procs"), pid) })
	if len(gone) > 1 || len(gone) == 1 && gone[0] != strconv.Itoa(f.PID) {
		t.Errorf("moved: %q (we are %d)", gone, f.PID)
	}
	if g.folders[0].Leaf == "" && len(gone) > 0 {
		t.Errorf("the launcher moved without a leaf: %q", gone)
	}
}

// A controller that no folder has is refused by its name, and the rest with Try holds.
func TestVMControllerMissing(t *testing.T) {
	l := limits(t, Flags{Memory: "64m", Conf: []string{"nonsense.max=1"}})
	f := onV2(t, limits(t, Flags{Memory: "64m"}))
	_, err := Compile(Wish{Limits: l}, f)
	wantRefusal(t, err, NoController, "nonsense", "/sys/fs/cgroup")
	g := group(t, Wish{Limits: l, Mode: Try})
	if !slices.ContainsFunc(g.Ledger, func(e Entry) bool { return e.Key == "memory.max" && e.State == InForce }) {
		t.Errorf("%v", g.Ledger)
	}
	if w, err := Settle(Try, g.Ledger); err != nil || len(w) != 1 || !strings.Contains(w[0], "nonsense") {
		t.Errorf("%q %v", w, err)
	}
}
