package container

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// writeBundle makes a bundle with this config.json.
func writeBundle(t testing.TB, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLoadBundle(t *testing.T) {
	dir := writeBundle(t, `{"ociVersion": "1.0.2-dev", "root": {"path": "rootfs"}, "unknown": {"ignored": true},
		"mounts": [
			{"destination": "/a", "source": "sub/./a", "options": ["rbind"]},
			{"destination": "/b", "source": "/abs", "options": ["bind"]},
			{"destination": "/c", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/d", "source": "../d", "options": ["bind"]}]}`)
	spec, err := LoadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := dir + "/rootfs"; spec.Root.Path != want {
		t.Errorf("root.path %q, want %q", spec.Root.Path, want)
	}
	for i, want := range []string{dir + "/sub/a", "/abs", "tmpfs", dir + "/../d"} {
		if got := spec.Mounts[i].Source; got != want {
			t.Errorf("mounts[%d].source %q, want %q", i, got, want)
		}
	}
}

func TestLoadBundleRelative(t *testing.T) {
	dir := writeBundle(t, `{"ociVersion": "1.3.0", "root": {"path": "/abs/root/"}}`)
	t.Chdir(filepath.Dir(dir))
	spec, err := LoadBundle(filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	if spec.Root.Path != "/abs/root" {
		t.Errorf("root.path %q", spec.Root.Path)
	}
}

func TestLoadBundleBadFolder(t *testing.T) {
	dir := t.TempDir()
	fifo := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(fifo, "config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dir, want string
		is        error
	}{
		{dir, "no config.json in this folder\n  make one with `cd " + dir + " && crun spec --rootless`, or pass --rootfs", unix.ENOENT},
		{dir + "/none", "no such folder", fs.ErrNotExist},
		{file, "a bundle is a folder", unix.ENOTDIR},
		{fifo, "not a regular file", nil},
	} {
		_, err := LoadBundle(test.dir)
		fault := new(BundleError)
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.dir, err, test.want)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v doesn't unwrap to %v", test.dir, err, test.is)
		}
	}
}

func TestLoadBundleUnreadable(t *testing.T) {
	dir := writeBundle(t, "{}")
	config := filepath.Join(dir, "config.json")
	if err := os.Chmod(config, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(config); err == nil {
		if os.Getenv("WOLFFIA_MUST_RUN") != "" && os.Geteuid() != 0 {
			t.Fatal("an ordinary user reads a file of mode 000")
		}
		t.Skip("this user reads files of mode 000 (CAP_DAC_OVERRIDE)")
	}
	_, err := LoadBundle(dir)
	if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "permission denied (EACCES)") {
		t.Errorf("got %v", err)
	}
}

func TestParseConfigFaults(t *testing.T) {
	const root = `"root": {"path": "/r"}`
	for _, test := range []struct {
		config, want string
		line, column int
	}{
		{"{\n  \"ociVersion\": \"1.0.2\",\n  \"root\" {}\n}", "not JSON: invalid character '{' after object key", 3, 10},
		{"", "not JSON: unexpected end of JSON input", 1, 1},
		{"{\n", "not JSON: unexpected end of JSON input", 1, 2},
		{"{} x", "not JSON: invalid character 'x' after top-level value", 1, 4},
		{"[]", "the file holds a JSON array, not an object", 1, 1},
		{"{\"process\":\n {\"user\": {\"uid\": -1}}}", "process.user.uid: a JSON number -1 can't be a uint32", 2, 20},
		{"null", "ociVersion: missing", 0, 0},
		{"{" + root + "}", "ociVersion: missing", 0, 0},
		{`{"ociVersion": "2.0.0",` + root + "}", `ociVersion: "2.0.0" is not supported, 1.x is`, 0, 0},
		{`{"ociVersion": "1",` + root + "}", `ociVersion: "1" is not a version`, 0, 0},
		{`{"ociVersion": "1.x",` + root + "}", `ociVersion: "1.x" is not a version`, 0, 0},
		{`{"ociVersion": "1.0.0"}`, "root.path: missing", 0, 0},
		{`{"ociVersion": "1.0.0", "root": {}}`, "root.path: missing", 0, 0},
	} {
		_, err := parseConfig("/b/config.json", []byte(test.config))
		fault := new(BundleError)
		if !errors.As(err, &fault) {
			t.Errorf("%q: got %v", test.config, err)
			continue
		}
		if !strings.HasPrefix(fault.What, test.want) || fault.Line != test.line || fault.Column != test.column {
			t.Errorf("%q: got %q at %d:%d, want %q at %d:%d", test.config,
				fault.What, fault.Line, fault.Column, test.want, test.line, test.column)
		}
		if fault.Remedy == "" || !strings.Contains(err.Error(), "\n  "+fault.Remedy) {
			t.Errorf("%q: no remedy in %q", test.config, err)
		}
	}
}

// FuzzParseConfig: no config.json makes the parser or the check panic, and a
// fault lies within the text.
func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"testdata/crun-rootless.json", "testdata/runc-rootless.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\n\n\"root\":3}"))
	f.Add([]byte(`{"ociVersion":"1.99.0","root":{"path":"."},"process":{"oomScoreAdj":-5},"linux":{"seccomp":{},"resources":{"devices":[{"allow":true}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := parseConfig("config.json", data)
		if err != nil {
			fault := new(BundleError)
			if !errors.As(err, &fault) {
				t.Fatalf("%T: %v", err, err)
			}
			if lines := strings.Count(string(data), "\n") + 1; fault.Line > lines || fault.Column > len(data)+1 {
				t.Fatalf("%d:%d is outside of %q", fault.Line, fault.Column, data)
			}
			return
		}
		before, _ := json.Marshal(spec)
		_, _ = CheckSpec(spec)
		if after, _ := json.Marshal(spec); string(before) != string(after) {
			t.Fatal("CheckSpec changed the spec")
		}
		makeAbsolute(spec, "/b")
		if !strings.HasPrefix(spec.Root.Path, "/") {
			t.Fatalf("root.path %q", spec.Root.Path)
		}
	})
}
