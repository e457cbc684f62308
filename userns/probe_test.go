package userns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const userStatus = "Name:\tx\nUid:\t1001\t1001\t1001\t1001\nGid:\t1001\t1001\t1001\t1001\nGroups:\t4 27 \n" +
	"CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t0\n"

var rootStatus = strings.NewReplacer("1001", "0", "CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff").Replace(userStatus)

// machine is a folder that stands for a machine; files are added to those that each has.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"/proc/self/status": userStatus, "/proc/self/setgroups": "allow\n",
		"/proc/self/uid_map": "0 0 4294967295\n", "/proc/self/gid_map": "0 0 4294967295\n",
		"/etc/passwd": "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n",
	} {
		put(t, dir, path, text)
	}
	for path, text := range files {
		put(t, dir, path, text)
	}
	return dir
}

// put writes a file; those in a bin folder are programs.
func put(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, path)
	mode := fs.FileMode(0o644)
	if filepath.Base(filepath.Dir(path)) == "bin" {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func probed(t *testing.T, files map[string]string) *Facts {
	t.Helper()
	f, err := Probe(ProbeOptions{Root: machine(t, files), Path: "/usr/bin", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantNote(t *testing.T, f *Facts, words string) {
	t.Helper()
	if !strings.Contains(strings.Join(f.Notes, "\n"), words) {
		t.Errorf("no note says %q: %q", words, f.Notes)
	}
}

func wantRanges(t *testing.T, got []Range, want ...Range) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

func TestProbeUser(t *testing.T) {
	f := probed(t, map[string]string{
		"/etc/subuid": "# subuid(5)\nbob:100000:65536\nalice:165536:65536\nalice:300000:1\n",
		"/etc/subgid": "alice:165536:65536\n",
	})
	if f.UID != 1001 || f.GID != 1001 || f.User != "alice" || f.Privileged || f.SetFCap || f.NoNewPrivs ||
		f.Setgroups != "allow" || len(f.Groups) != 2 || f.Unbounded != nil || f.Barred != "" || f.FreeRange != nil {
		t.Errorf("%+v", f)
	}
	wantRanges(t, f.SubUID, Range{165536, 65536, "/etc/subuid line 3 (by name)"}, Range{300000, 1, "/etc/subuid line 4 (by name)"})
	wantRanges(t, f.SubGID, Range{165536, 65536, "/etc/subgid line 1 (by name)"})
	if len(f.Notes) != 0 {
		t.Errorf("notes %q", f.Notes)
	}
}

// rootless-containers/rootlesskit#141 and Osmantic/ODS#1862: lines keyed by the numeric uid; gid ranges are the user's.
func TestProbeNumericOwner(t *testing.T) {
	f := probed(t, map[string]string{"/etc/subuid": "1001:200000:65536\n", "/etc/subgid": "alice:5000:10\n1001:200000:65536"})
	wantRanges(t, f.SubUID, Range{200000, 65536, "/etc/subuid line 1 (by uid)"})
	wantRanges(t, f.SubGID, Range{5000, 10, "/etc/subgid line 1 (by name)"}, Range{200000, 65536, "/etc/subgid line 2 (by uid)"})
}

func TestProbeMalformedLines(t *testing.T) {
	f := probed(t, map[string]string{
		"/etc/subuid": "alice:100000\nalice:-1:5\nalice:5:x\nalice:4294967290:10\n\nalice:7:0\nalice:9:1\n",
		"/etc/subgid": "alice:1:1\n",
	})
	wantRanges(t, f.SubUID, Range{9, 1, "/etc/subuid line 7 (by name)"})
	for _, line := range []string{"1", "2", "3", "4", "6"} {
		wantNote(t, f, "/etc/subuid line "+line+" skipped: ")
	}
}

const answers = "#!/bin/sh\nif [ \"$1\" = -g ]; then echo \"0: $2 700000 10\"; else echo \"0: $1 600000 10\"; echo \"1: $1 800000 5\"; fi\n"

// rootless-containers/rootlesskit#340: a directory service has the ranges.
func TestProbeGetsubids(t *testing.T) {
	f := probed(t, map[string]string{"/usr/bin/getsubids": answers})
	if len(f.SubUID) != 2 || f.SubUID[0].Start != 600000 || f.SubUID[1].Count != 5 || len(f.SubGID) != 1 || f.SubGID[0].Start != 700000 {
		t.Fatalf("%v, %v", f.SubUID, f.SubGID)
	}
	if source := f.SubGID[0].Source; !strings.HasSuffix(source, "/usr/bin/getsubids -g alice") {
		t.Errorf("source %q", source)
	}
	wantNote(t, f, "/etc/subuid has no range for \"alice\" (uid 1001): used ")
}

// rootless-containers/rootlesskit#340: nsswitch.conf decides who is asked first.
func TestProbeNsswitch(t *testing.T) {
	files := map[string]string{"/etc/subuid": "alice:5:5\n", "/etc/subgid": "alice:5:5\n", "/usr/bin/getsubids": answers}
	files["/etc/nsswitch.conf"] = "passwd: files sss\nsubid: files # not sss\n"
	if f := probed(t, files); f.SubUID[0].Start != 5 || len(f.Notes) != 0 {
		t.Errorf("files: %v, %q", f.SubUID, f.Notes)
	}
	files["/etc/nsswitch.conf"] = "subid:\t[NOTFOUND=return] sss\n"
	f := probed(t, files)
	if f.SubUID[0].Start != 600000 || f.SubGID[0].Start != 700000 {
		t.Errorf("sss: %v, %v", f.SubUID, f.SubGID)
	}
	wantNote(t, f, "nsswitch.conf has \"subid: sss\": used ")
}

// rootless-containers/rootlesskit#340: getsubids fails, and the files serve.
func TestProbeGetsubidsFails(t *testing.T) {
	files := map[string]string{"/etc/subuid": "alice:5:5\n", "/etc/subgid": "alice:5:5\n", "/etc/nsswitch.conf": "subid: sss\n"}
	for script, words := range map[string]string{
		"#!/bin/sh\necho Error fetching ranges >&2\nexit 1\n": "exit status 1 (it said \"Error fetching ranges\")",
		"#!/bin/sh\necho 0: alice x 5\n":                      "output not understood",
		"#!/bin/sh\nkill -9 $$\n":                             "signal: killed",
		"#!/no/such/interpreter\n":                            "no such file",
		"#!/bin/sh\nexit 0\n":                                 "getsubids has no range; used /etc/subuid",
	} {
		files["/usr/bin/getsubids"] = script
		f := probed(t, files)
		wantRanges(t, f.SubUID, Range{5, 5, "/etc/subuid line 1 (by name)"})
		wantNote(t, f, words)
		wantNote(t, f, "used /etc/subuid")
	}
	delete(files, "/usr/bin/getsubids")
	wantNote(t, probed(t, files), "no such file or directory in PATH")
}

// rootless-containers/rootlesskit#340: a directory that doesn't answer holds nothing up.
func TestProbeGetsubidsHangs(t *testing.T) {
	dir := machine(t, map[string]string{"/etc/subgid": "alice:5:5\n", "/usr/bin/getsubids": "#!/bin/sh\nexec sleep 60\n"})
	start := time.Now()
	f, err := Probe(ProbeOptions{Root: dir, Path: "/usr/bin", Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	wantNote(t, f, "no end of output within 100ms")
	_, err = PlanMaps(Request{Mode: Auto}, f)
	wantPlanError(t, err, ReasonNoSubUIDs, "no end of output within 100ms")
}

// A user of a directory service has no line in /etc/passwd.
func TestProbeNameFromEnvironment(t *testing.T) {
	dir := machine(t, map[string]string{"/etc/passwd": "root:x:0:0::/:\n", "/etc/subuid": "al:7:7\n", "/etc/subgid": "al:7:7\n"})
	f, err := Probe(ProbeOptions{Root: dir, Path: "/usr/bin", User: "al"})
	if err != nil {
		t.Fatal(err)
	}
	wantRanges(t, f.SubUID, Range{7, 7, "/etc/subuid line 1 (by name)"})
	wantNote(t, f, `took the name "al" from the environment`)
}

// newuidmap refuses a process whose gid isn't the user's primary group, unless login.defs allows it.
func TestProbePrimaryGroup(t *testing.T) {
	files := map[string]string{"/etc/passwd": "alice:x:1001:50::/:\n"}
	if f := probed(t, files); !strings.Contains(f.Barred, "gid 1001, but the primary group of \"alice\" is 50") {
		t.Errorf("%q", f.Barred)
	}
	files["/etc/login.defs"] = "# x\nGRANT_AUX_GROUP_SUBIDS yes\n"
	if f := probed(t, files); f.Barred != "" {
		t.Errorf("%q", f.Barred)
	}
}

func TestProbeRootFreeRange(t *testing.T) {
	files := map[string]string{"/proc/self/status": rootStatus, "/etc/machine-id": "0123456789abcdef0123456789abcdef\n"}
	f := probed(t, files)
	if !f.Privileged || !f.SetFCap || f.FreeRange == nil {
		t.Fatalf("%+v", f)
	}
	first := *f.FreeRange
	if first.Start%65536 != 0 || first.Start < 524288 || first.span().end > 1879048192 || first.Count != 65536 {
		t.Errorf("%v", first)
	}
	if again := probed(t, files); *again.FreeRange != first {
		t.Errorf("%v, and then %v", first, again.FreeRange)
	}
	for file, text := range map[string]string{
		"/etc/passwd": "x:x:" + decimal(first.Start+65535) + ":0::/:\n",
		"/etc/group":  "x:x:" + decimal(first.Start) + ":\n",
		"/etc/subuid": "bob:" + decimal(first.Start-1) + ":2\n",
		"/etc/subgid": "bob:" + decimal(first.Start+9) + ":2\n",
	} {
		files := map[string]string{"/proc/self/status": rootStatus, "/etc/machine-id": files["/etc/machine-id"], file: text}
		if f := probed(t, files); f.FreeRange == nil || f.FreeRange.span().overlaps(first.span()) {
			t.Errorf("%s uses an id of %v, and yet %v", file, first, f.FreeRange)
		}
	}
}

// Root doesn't pay for getsubids unless a directory is configured.
func TestProbeRootGetsubids(t *testing.T) {
	files := map[string]string{"/proc/self/status": rootStatus, "/usr/bin/getsubids": answers}
	if f := probed(t, files); f.SubUID != nil || f.FreeRange == nil {
		t.Errorf("%v, %v", f.SubUID, f.FreeRange)
	}
	files["/etc/nsswitch.conf"] = "subid: sss\n"
	if f := probed(t, files); len(f.SubUID) != 2 || f.FreeRange != nil {
		t.Errorf("%v, %v", f.SubUID, f.FreeRange)
	}
}

// A file longer than a page is read whole.
func TestProbeLongFiles(t *testing.T) {
	pad := strings.Repeat("bob:1:1\n", 5000)
	f := probed(t, map[string]string{"/etc/subuid": pad + "alice:7:7", "/etc/subgid": pad[:8*512] + "alice:7:7\n"})
	wantRanges(t, f.SubUID, Range{7, 7, "/etc/subuid line 5001 (by name)"})
	wantRanges(t, f.SubGID, Range{7, 7, "/etc/subgid line 513 (by name)"})
}

// In a container there is no free range: moby/buildkit#3297.
func TestProbeNestedRoot(t *testing.T) {
	f := probed(t, map[string]string{"/proc/self/status": rootStatus, "/proc/self/uid_map": "0 1000 1\n1 100000 65536\n"})
	if f.FreeRange != nil {
		t.Errorf("%v", f.FreeRange)
	}
	_, err := PlanMaps(Request{Mode: Auto}, f)
	wantPlanError(t, err, ReasonNoFreeRange, "this namespace has 0, 1-65536")
}

func TestProbeNextSubID(t *testing.T) {
	f := probed(t, map[string]string{"/etc/subuid": "bob:100000:65536\n", "/etc/subgid": "eve:165536:65536\n"})
	_, err := PlanMaps(Request{Mode: Auto}, f)
	wantPlanError(t, err, ReasonNoSubUIDs, "usermod --add-subuids 231072-296607 --add-subgids 231072-296607 alice")
}

// single and host look for nothing that they don't need.
func TestProbeSingleIsCheap(t *testing.T) {
	dir := machine(t, map[string]string{"/usr/bin/getsubids": "#!/bin/sh\nexec sleep 60\n"})
	f, err := Probe(ProbeOptions{Root: dir, Mode: Single})
	if err != nil || f.NewUIDMap.Found || f.SubUID != nil {
		t.Fatalf("%+v, %v", f, err)
	}
	wantNote(t, f, "not looked for")
}

func TestProbeWithoutProc(t *testing.T) {
	_, err := Probe(ProbeOptions{Root: t.TempDir()})
	var fault *ProbeError
	if !errors.As(err, &fault) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/proc must be mounted") {
		t.Errorf("%v", err)
	}
	_, err = Probe(ProbeOptions{Root: machine(t, map[string]string{"/proc/self/uid_map": "x\n"})})
	if !errors.As(err, &fault) {
		t.Errorf("%v", err)
	}
}
