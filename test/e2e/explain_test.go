package e2e

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of TestExplainGolden anew")

func explain(t testing.TB, args ...string) ran {
	t.Helper()
	return command{args: append([]string{wolffia, "explain"}, args...)}.do(t)
}

// Nothing runs, and no privilege is needed: here not even that of making a namespace, or of seeing another process.
func TestExplainRunsNothing(t *testing.T) {
	mark := t.TempDir()
	out := explain(t, inRoot("touch /mnt/ran", "-v", mark+":/mnt")...).ok(t)
	for _, want := range []string{"The launcher's lane:", "The child's lane:", "clone3(", "newuidmap", "pivot_root(", "execve(", "[clone(2)]", "[execve(2)]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in it", want)
		}
	}
	if left, _ := os.ReadDir(mark); len(left) > 0 {
		t.Error("it ran")
	}
	args := append([]string{"clone3=EPERM,fsopen=EPERM", wolffia, "explain", "--map", "single"}, inRoot("true")...)
	asRole("filter", args...).do(t).ok(t)
	r := inMounts(t, `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" explain --map single --rootfs "$1" -- true`)
	r.ok(t)
	upper := t.TempDir() + "/upper"
	os.Mkdir(upper, 0o755)
	explain(t, inRoot("true", "--upper", upper)...).ok(t)
	if _, err := os.Lstat(upper + ".work"); err == nil {
		t.Error("explain made a work folder")
	}
}

// explainedPlan is the part of --json that tests look at.
type explainedPlan struct {
	Host, Child []struct{ Name string }
	Notes       []string
}

func TestExplainJSON(t *testing.T) {
	var plan explainedPlan
	if err := json.Unmarshal([]byte(explain(t, inRoot("true", "--json")...).ok(t)), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Host) < 5 || len(plan.Child) < 50 {
		t.Errorf("%d host and %d child steps", len(plan.Host), len(plan.Child))
	}
	for i, s := range append(plan.Host, plan.Child...) {
		if s.Name == "" {
			t.Errorf("step %d has no name", i)
		}
	}
}

// What was saved here plans as this machine does, and what another saved without a look at this one.
func TestFactsRoundTrip(t *testing.T) {
	facts := t.TempDir() + "/facts.json"
	for _, flags := range [][]string{nil, {"--map", "single"}, {"--user", "1000"}, {"-v", "/usr:/mnt:ro", "--tmpfs", "/x"}, {"--read-only"}} {
		explain(t, append([]string{"--facts-save", facts, "--rootfs", rootfs}, flags...)...).ok(t)
		here := explain(t, inRoot("true", flags...)...).ok(t)
		there := explain(t, inRoot("true", append([]string{"--facts", facts}, flags...)...)...).ok(t)
		if here != there {
			t.Errorf("%v: the plans differ:\n%s", flags, strings.Join(difference(strings.Split(here, "\n"), strings.Split(there, "\n")), "\n"))
		}
	}
	if first := read(t, facts); !json.Valid([]byte(first)) {
		t.Errorf("not JSON: %s", first)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"ids": 3}`} {
		explain(t, "--facts", write(t, t.TempDir()+"/bad", bad, 0o644), "--", "true").refused(t, "--facts", "--facts-save")
	}
	explain(t, "--facts", "/no/such/file", "--", "true").refused(t, "/no/such/file")
	explain(t, "--facts-save", "/no/such/folder/file", "--", "true").refused(t, "/no/such/folder/file")
}

func TestExplainTopics(t *testing.T) {
	help := explain(t, "--help").ok(t)
	_, list, _ := strings.Cut(help, "explain a mechanism: ")
	list, _, _ = strings.Cut(list, "\n")
	topics := strings.Split(list, ", ")
	if len(topics) < 5 {
		t.Fatalf("topics %q", topics)
	}
	for _, name := range topics {
		if out := explain(t, "--topic", name).ok(t); len(out) < 200 {
			t.Errorf("--topic %s: %s", name, out)
		}
	}
	explain(t, "--topic", "none").refused(t, "--topic none", topics[0])
	for name, want := range map[string]string{"vm": "CLONE_VM", "fork": "newuidmap, PID", "ptrace": "PTRACE_TRACEME", "pool": "In advance"} {
		if out := explain(t, "--topic", "userns", "--mechanism", name).ok(t); !strings.Contains(out, want) || !strings.Contains(out, "PIDFD_GET_USER_NAMESPACE") {
			t.Errorf("--mechanism %s: %s", name, out)
		}
	}
	explain(t, "--topic", "userns", "--mechanism", "none").refused(t, "--mechanism none", "ptrace")
	explain(t, "--topic", "mounts", "--mechanism", "vm").refused(t, "--topic userns")
}

// Plans for two other machines, as text: a new one, and one with Linux 5.15 and no helpers.
func TestExplainGolden(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
	}{
		{"linux-6.18", []string{"--rootfs", "/srv/root", "-v", "/srv/data:/data:ro", "--user", "1000:1000", "--", "sh", "-c", "id"}},
		{"linux-6.18-host", []string{"--facts", "testdata/linux-6.18.json", "--hostname", "view", "--", "true"}},
		{"linux-5.15", []string{"--rootfs", "/srv/root", "--lower", "/srv/base", "--map", "single", "--", "/bin/true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags := test.flags
			if flags[0] != "--facts" {
				flags = append([]string{"--facts", "testdata/" + test.name + ".json"}, flags...)
			}
			got := command{args: append([]string{wolffia, "explain"}, flags...), env: []string{"TERM=dumb"}}.do(t).ok(t) + "\n"
			golden := "testdata/" + test.name + ".txt"
			if *update {
				write(t, golden, got, 0o644)
			}
			if want := read(t, golden); got != want {
				t.Errorf("%s differs (-update writes it anew):\n%s", golden, strings.Join(difference(strings.Split(want, "\n"), strings.Split(got, "\n")), "\n"))
			}
		})
	}
	explain(t, "--facts", "testdata/linux-5.15.json", "--rootfs", "/srv/root", "--", "true").refused(t, "no subordinate uids", "--map single")
}

// trace runs, and then shows both lanes with what each step returned and took.
func TestTrace(t *testing.T) {
	trace := func(args ...string) ran {
		return command{args: append([]string{wolffia, "trace"}, args...)}.do(t)
	}
	r := trace(inRoot("echo inside; exit 3")...)
	if r.exits(t, 3); !strings.HasPrefix(r.out, "inside\n") || !strings.Contains(r.out, "H2") || !strings.Contains(r.out, "pivot_root(") {
		t.Errorf("%s", r.out)
	}
	r = trace(inRoot("exit 3", "--json")...)
	var report struct {
		Steps []struct {
			Lane, Name, Errno string
			Return            *int64
			Took              int64 `json:"took_ns"`
		}
		Total int64 `json:"total_ns"`
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v\n%s", err, r.out)
	}
	var sum, unfinished int64
	for _, s := range report.Steps {
		if s.Return == nil {
			unfinished++ // execve, when it succeeds
		}
		if s.Took < 0 {
			t.Errorf("%s took %d ns", s.Name, s.Took)
		}
		if s.Lane == "child" {
			sum += s.Took
		}
	}
	if r.code != 3 || len(report.Steps) < 100 || unfinished != 1 || report.Total <= 0 || sum > 2*report.Total {
		t.Errorf("exit %d, %d steps, %d of them unfinished, %d of %d ns", r.code, len(report.Steps), unfinished, sum, report.Total)
	}
	r = trace("--rootfs", rootfs, "--json", "--", "no-such-program")
	if r.exits(t, 127); !strings.Contains(r.out, `"errno": "ENOENT"`) || !strings.Contains(r.err, "no such program") {
		t.Errorf("of a start that failed: %+v", r)
	}
}
