package nsexec

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutCredentials is a plan whose child leaves the dumpable flag alone.
func withoutCredentials(argv ...string) *Plan {
	plan := realPlan(argv...)
	plan.DropsDumpable = false
	plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Op == OpDumpable || h.Data == GateCredentials })
	plan.Child = slices.DeleteFunc(plan.Child, func(s Step) bool {
		gate, _ := s.gate()
		return gate == GateCredentials || strings.HasPrefix(s.Name, "clear the dumpable")
	})
	return plan
}

// Hazard: a child's change of ids clears our dumpable flag, and the next map
// can't be written (EACCES). Starts that clear it overlap with ones that need it.
func TestDumpableOverlap(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	concurrently(t, 4, 50, func(g, i int) error {
		if g%2 == 0 {
			return startAndWait(s, realPlan("/bin/true"))
		}
		return startAndWait(s, withoutCredentials("/bin/true"))
	})
	wantDumpable(t)
}

// The same by a real change to another kernel uid, with the maps written by
// newuidmap(1) and newgidmap(1).
func TestDumpableSubIDs(t *testing.T) {
	uids, gids := subIDs(t, "/etc/subuid"), subIDs(t, "/etc/subgid")
	if os.Geteuid() == 0 {
		t.Skip("root writes maps itself: TestRootDumpable")
	}
	defer leaks(t)()
	s := NewSpawner()
	concurrently(t, 2, 10, func(g, i int) error { return startAndWait(s, helperPlan(uids, gids)) })
	wantDumpable(t)
}

func subIDs(t *testing.T, path string) string {
	t.Helper()
	for line := range strings.Lines(readFile(path)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 3 && (f[0] == os.Getenv("USER") || f[0] == fmt.Sprint(os.Getuid()) || f[0] == "wolffia-test" && os.Getuid() == 1977) {
			return f[1]
		}
	}
	if os.Geteuid() != 0 {
		missing(t, "a range of this user's in "+path)
	}
	return ""
}

func helperPlan(uids, gids string) *Plan {
	plan := realPlan("/bin/true")
	helper := func(tool, own, first string) HostStep {
		return HostStep{Name: tool, Op: OpExec, Path: "/usr/bin/" + tool, Argv: []string{tool, ChildPID, "0", own, "1", "1", first, "100"}}
	}
	plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Op == OpWrite || h.Op == OpExec })
	plan.Host = slices.Insert(plan.Host, 2, helper("newuidmap", fmt.Sprint(os.Getuid()), uids), helper("newgidmap", fmt.Sprint(os.Getgid()), gids))
	return becoming(plan, 5)
}

// becoming has the child become another id, which clears the flag by itself.
func becoming(plan *Plan, id uint32) *Plan {
	for i, s := range plan.Child {
		switch {
		case s.Call == unix.SYS_SETRESGID:
			plan.Child[i] = Setresgid(id).Named("become gid ", strconv.Itoa(int(id)))
		case s.Call == unix.SYS_SETRESUID:
			plan.Child[i] = Setresuid(id).Named("become uid ", strconv.Itoa(int(id)))
		}
	}
	plan.Child = slices.DeleteFunc(plan.Child, func(s Step) bool { return strings.HasPrefix(s.Name, "clear the dumpable") })
	return plan
}

func TestRootDumpable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runs in the run as root: it maps ids that an ordinary user can't")
	}
	defer leaks(t)()
	s := NewSpawner()
	concurrently(t, 4, 20, func(g, i int) error {
		plan := becoming(realPlan("/bin/true"), 5)
		for k, h := range plan.Host {
			if strings.HasSuffix(h.Path, "id_map") {
				plan.Host[k].Data = "0 0 1\n1 900000 100\n"
			}
		}
		plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Name == "write setgroups" })
		return startAndWait(s, plan)
	})
	wantDumpable(t)
}

// A launcher that isn't dumpable on purpose stays so.
func TestNotDumpableStays(t *testing.T) {
	defer leaks(t)()
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	plan := realPlan("/bin/true")
	plan.Host[1].Flags = 0 // no map to write
	plan.Host = slices.DeleteFunc(plan.Host, func(h HostStep) bool { return h.Op == OpWrite })
	plan.Child = slices.DeleteFunc(plan.Child, func(s Step) bool {
		return s.Call == unix.SYS_MOUNT || s.Call == unix.SYS_SETHOSTNAME || s.Call == unix.SYS_MKDIRAT || s.Call == unix.SYS_SETRESUID || s.Call == unix.SYS_SETRESGID
	})
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := startAndWait(NewSpawner(), plan); err != nil {
		t.Fatal(err)
	}
	if flag, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); flag != 0 {
		t.Errorf("dumpable %d", flag)
	}
}
