package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/userns"
)

// all pretends each thing once; those with a value, several.
func all() []string {
	var list []string
	for _, name := range Pretences() {
		switch name {
		case "max-userns=":
			list = append(list, "max-userns=0", "max-userns=1")
		case "yama=":
			list = append(list, "yama=0", "yama=2", "yama=3")
		case "nofile=", "nproc=":
			list = append(list, name+"20")
		default:
			list = append(list, name)
		}
	}
	return append(list, "no-delegation,no-newuidmap,yama=2,no-overlay,no-tun,seccomp-ptrace,max-userns=0,apparmor,hidepid")
}

// pretended is the report of the good machine made worse.
func pretended(t testing.TB, names string) *Report {
	t.Helper()
	worse, err := good(t).Pretend(strings.Split(names, ",")...)
	if err != nil {
		t.Fatal(err)
	}
	return Diagnose(worse)
}

// changed are the checks and verdicts that differ from those of the good machine.
func changed(t testing.TB, r *Report) *Report {
	before := Diagnose(good(t))
	diff := &Report{Works: r.Works}
	for i, c := range r.Checks {
		if !reflect.DeepEqual(c, before.Checks[i]) {
			diff.Checks = append(diff.Checks, c)
		}
	}
	for i, v := range r.Verdicts {
		if v != before.Verdicts[i] {
			diff.Verdicts = append(diff.Verdicts, v)
		}
	}
	return diff
}

// What a person is told on each worse machine, and nothing more than on the good
// one (lerd-env/lerd#636).
func TestPretendGolden(t *testing.T) {
	var b bytes.Buffer
	Diagnose(good(t)).Write(&b)
	for _, names := range all() {
		diff := changed(t, pretended(t, names))
		fmt.Fprintf(&b, "\n--pretend %s\n", names)
		diff.Write(&b)
	}
	golden(t, "testdata/pretend.txt", b.String())
}

// Programs rely on these (HKUDS/nanobot#4249).
func TestReasonsAreStable(t *testing.T) {
	var b strings.Builder
	for _, names := range all() {
		for _, c := range changed(t, pretended(t, names)).Checks {
			fmt.Fprintf(&b, "%s: %s %s %s\n", names, c.Name, string(c.State), c.Reason)
			if c.State != Works && (c.Reason == "" || c.Reason != c.Causes[0].Code) {
				t.Errorf("%s: %s has no reason: %+v", names, c.Name, c)
			}
		}
	}
	golden(t, "testdata/reasons.txt", b.String())
}

// lerd-env/lerd#636: each broken machine yields its cause and its remedy, and the
// verdict of run with it.
func TestEachFaultItsCause(t *testing.T) {
	for _, test := range []struct {
		pretend, check, reason string
		state                  State
		cause, remedy          string
		runs                   bool
	}{
		{"max-userns=0", "user-namespaces", "namespaces-off", Cant, "not a disk: user.max_user_namespaces is 0", "sysctl user.max_user_namespaces=10000", false},
		{"no-userns-clone", "user-namespaces", "userns-clone-sysctl", Cant, "switched off", "sysctl kernel.unprivileged_userns_clone=1", false},
		{"apparmor", "user-namespaces", "userns-apparmor", Cant, "AppArmor", "profile wolffia /usr/local/bin/wolffia", false}, // rootless-containers/rootlesskit#421
		{"no-newuidmap", "id-map-helpers", "no-newuidmap", Cant, "newuidmap is not installed", "apt-get install uidmap", false},
		{"no-subids", "sub-ids", "no-subuids", Cant, "/etc/subuid", "usermod --add-subuids", false},
		{"no-overlay", "overlay", "overlay-missing", Cant, "no overlayfs", "modprobe overlay", false},
		{"masked-proc", "proc", "proc-masked", Cant, "too revealing", "--share pid", false},
		{"no-tun", "tun", "tun-missing", Cant, "/dev/net/tun", "modprobe tun", true},
		{"no-delegation", "cgroup-memory", "not-delegated", Cant, "isn't delegated to uid 1000", "systemd-run --user --scope", true},
		{"no-memory", "cgroup-memory", "controller-not-delegated", Cant, "it stops at", "Delegate=", true},
		{"yama=2", "ptrace", "ptrace-yama", Cant, "kernel.yama.ptrace_scope is 2", "sysctl kernel.yama.ptrace_scope=1", true},
		{"seccomp-ptrace", "ptrace", "ptrace-seccomp", Cant, "blocked by seccomp (Seccomp: 2)", "allow ptrace(2)", true}, // freedomofpress/dangerzone#846
		{"hidepid", "proc", "hidepid", WorksBut, "hidepid=2", "remount,hidepid=0", true},
		{"few-subids", "sub-ids", "few-subids", WorksBut, "64035 short of the 65535", "usermod", true},
		{"nofile=20", "limits", "nofile", Cant, "open files", "ulimit -n", false},
	} {
		r := pretended(t, test.pretend)
		c := r.check(test.check)
		if c.Reason != test.reason || c.State != test.state || r.Works != test.runs {
			t.Errorf("%s: %s is %s, %q, and run works: %t", test.pretend, test.check, c.State, c.Reason, r.Works)
		}
		if len(c.Causes) != 1 || !strings.Contains(c.Causes[0].What, test.cause) || !strings.Contains(c.Causes[0].Remedy, test.remedy) {
			t.Errorf("%s: %+v", test.pretend, c.Causes)
		}
	}
}

// containers/bubblewrap#139: several causes that are there are told, in their order.
func TestSeveralCauses(t *testing.T) {
	f := good(t)
	f.Policy.UsernsClone, f.Policy.AppArmorUserns, f.Policy.Seccomp = "0", "1", 2
	f.Userns = fails(stepMake, cloneCall, unix.EPERM)
	var got []string
	for _, cause := range Examine(f, "user-namespaces")[0].Causes {
		got = append(got, cause.Code)
	}
	if want := []string{"userns-clone-sysctl", "userns-apparmor", "seccomp"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Osmantic/ODS#1862: keys by name and by number, many ranges, too few: sum, kind
// of key and shortfall.
func TestSubIDFacts(t *testing.T) {
	owner := userns.Owner{Name: "user", UID: 1000}
	for _, test := range []struct {
		text    string
		state   State
		sum     uint64
		ranges  int
		keys    string
		missing uint64
	}{
		{"user:100000:65536\n", Works, 65536, 1, "name", 0},
		{"1000:100000:65536\n", Works, 65536, 1, "uid", 0},
		{"1000:100000:30000\nother:200000:65536\nuser:300000:35535\n", Works, 65535, 2, "name and uid", 0},
		{"user:100000:1000\nuser:200000:1000\nuser:300000:1000\n", WorksBut, 3000, 3, "name", 62535},
		{"1000:100000:1\n", WorksBut, 1, 1, "uid", 65534},
		{"other:100000:65536\n", Cant, 0, 0, "", 65535},
	} {
		f := good(t)
		f.IDs.SubUID, _ = userns.ParseSubIDs(test.text, "/etc/subuid", owner)
		f.IDs.SubGID, _ = userns.ParseSubIDs(test.text, "/etc/subgid", owner)
		c := Examine(f, "sub-ids")[0]
		want := map[string]any{"uids": test.sum, "gids": test.sum, "uid_ranges": test.ranges, "gid_ranges": test.ranges, "uid_keys": test.keys, "gid_keys": test.keys, "missing": test.missing}
		if c.State != test.state || !reflect.DeepEqual(c.Facts, want) {
			t.Errorf("%q: %s %v", test.text, c.State, c.Facts)
		}
	}
}

// A pretence reaches nothing but its copy.
func TestPretendLeavesFactsAlone(t *testing.T) {
	f := good(t)
	f.Started = &Started{}
	for _, names := range all() {
		worse, err := f.Pretend(strings.Split(names, ",")...)
		if err != nil {
			t.Fatal(names, err)
		}
		if worse.Started != nil {
			t.Errorf("%s: what was started on this machine is told of the other", names)
		}
	}
	f.Started = nil
	if !reflect.DeepEqual(f, good(t)) {
		t.Error("Pretend changed what it was called on")
	}
}

func TestPretendUnknown(t *testing.T) {
	var name *UnknownNameError
	for _, f := range []*Facts{{}, good(t)} {
		_, err := f.Pretend("no-delegation", "nonsense")
		if !errors.As(err, &name) || name.Name != "nonsense" || !strings.Contains(err.Error(), "no-newuidmap") || !strings.Contains(err.Error(), "no-delegation") {
			t.Error(err)
		}
	}
	var value *ValueError
	for _, text := range []string{"yama", "yama=", "yama=4", "yama=x", "max-userns=-1", "no-tun=1", "apparmor="} {
		if _, err := good(t).Pretend(text); !errors.As(err, &value) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Probe(t.Context(), Options{Only: []string{"nonsense"}}); !errors.As(err, &name) || !strings.Contains(err.Error(), "cgroup-memory") {
		t.Error(err)
	}
}

// JSON has the reasons where programs look for them.
func TestReportJSON(t *testing.T) {
	text, err := json.Marshal(pretended(t, "no-newuidmap"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Works  bool
		Checks []struct{ Name, State, Reason string }
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Works {
		t.Fatal(err, r.Works)
	}
	for i, c := range r.Checks {
		if c.Name != Names()[i] {
			t.Errorf("%s, want %s", c.Name, Names()[i])
		}
		if c.Name == "id-map-helpers" && (c.State != "cant" || c.Reason != "no-newuidmap") {
			t.Errorf("%+v", c)
		}
	}
}

// What wasn't tried is told as that.
func TestNothingTried(t *testing.T) {
	for _, c := range Examine(&Facts{}) {
		if c.State == Works || c.Reason != reasonNotTried && c.Name != "user-namespaces" || len(c.Causes) == 0 {
			t.Errorf("%+v", c)
		}
	}
}

// docs/doctor.md lists every check, every reason and every pretence.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	want := Names()
	for _, name := range Pretences() {
		want = append(want, strings.Replace(name, "=", "=N", 1))
	}
	for _, names := range all() {
		for _, c := range pretended(t, names).Checks {
			for _, cause := range c.Causes {
				want = append(want, cause.Code)
			}
		}
	}
	for _, word := range want {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("docs/doctor.md has no `%s`", word)
		}
	}
}

// The two programs' ends tell whether the limit held: a kill without the kernel's
// word for it proves nothing (hashicorp/nomad#12735).
func TestProofHolds(t *testing.T) {
	for _, test := range []struct {
		over, under Ran
		holds       bool
	}{
		{Ran{ExitCode: 137, OOMKills: 1}, Ran{}, true},
		{Ran{ExitCode: 0}, Ran{}, false},                             // 200 MB were touched, and nothing happened
		{Ran{ExitCode: 137}, Ran{}, false},                           // somebody else's SIGKILL
		{Ran{ExitCode: 137, OOMKills: 1}, Ran{ExitCode: 137}, false}, // the limit is too tight
	} {
		p := &Proof{Limit: proofLimit, Touched: proofTouch, Less: proofLess, Over: test.over, Under: test.under}
		var b strings.Builder
		if p.Write(&b); p.Holds() != test.holds || !strings.Contains(b.String(), "limit 64 MiB, touched 200 MiB") {
			t.Errorf("%+v holds: %t\n%s", p, p.Holds(), &b)
		}
	}
}
