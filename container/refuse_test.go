package container

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// refusedPaths are the paths of the UnsupportedFieldErrors joined in err.
func refusedPaths(t testing.TB, err error) []string {
	t.Helper()
	var paths []string
	if err == nil {
		return paths
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		fault := new(UnsupportedFieldError)
		if !errors.As(e, &fault) || fault.What == "" || fault.Remedy == "" {
			t.Errorf("%#v is no whole UnsupportedFieldError", e)
			continue
		}
		paths = append(paths, fault.Path)
	}
	return paths
}

// specLeaf is a leaf of specs.Spec; set gives it a value in a fresh Spec.
type specLeaf struct {
	path string // with index 0 and key "k": "mounts[0].type"
	kind reflect.Type
	set  func(*specs.Spec)
}

// specLeaves walks the type: every scalar, list of scalars and map of scalars.
func specLeaves() []specLeaf {
	var leaves []specLeaf
	var walk func(path string, t reflect.Type, reach func(reflect.Value) reflect.Value)
	walk = func(path string, t reflect.Type, reach func(reflect.Value) reflect.Value) {
		elem := t
		if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			elem = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Struct:
			for i := range t.NumField() {
				name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
				next := path + "." + name
				if t.Field(i).Anonymous {
					next = path
				}
				walk(strings.TrimPrefix(next, "."), t.Field(i).Type, func(root reflect.Value) reflect.Value { return reach(root).Field(i) })
			}
		case elem.Kind() == reflect.Struct && t.Kind() == reflect.Pointer:
			walk(path, elem, func(root reflect.Value) reflect.Value {
				v := reach(root)
				v.Set(reflect.New(elem))
				return v.Elem()
			})
		case elem.Kind() == reflect.Struct && t.Kind() == reflect.Slice:
			walk(path+"[0]", elem, func(root reflect.Value) reflect.Value {
				v := reach(root)
				v.Set(reflect.MakeSlice(t, 1, 1))
				return v.Index(0)
			})
		default:
			leaves = append(leaves, specLeaf{path, t, func(s *specs.Spec) {
				fill(reach(reflect.ValueOf(s).Elem()))
			}})
		}
	}
	walk("", reflect.TypeFor[specs.Spec](), func(v reflect.Value) reflect.Value { return v })
	return leaves
}

// fill makes v non-zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.Zero(v.Type().Elem()))
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	default:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// within: the value at path is below the field at parent, or is it.
func within(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// TestCheckSpecIsExhaustive sets each leaf of specs.Spec alone. What isn't
// built must be refused, by a path that leads to this leaf and has nothing
// that is built below it: a new runtime-spec can't add what is ignored.
func TestCheckSpecIsExhaustive(t *testing.T) {
	table := map[string]fieldUse{}
	for _, f := range fieldTable {
		table[f.schema] = f.use
	}
	leaves := specLeaves()
	if len(leaves) < 200 {
		t.Fatalf("only %d leaves found in specs.Spec", len(leaves))
	}
	refused := make(map[string]bool)
	for _, leaf := range leaves {
		if table[indexes.ReplaceAllString(leaf.path, "[]")] == built {
			continue
		}
		spec := new(specs.Spec)
		leaf.set(spec)
		_, err := CheckSpec(spec)
		paths := slices.DeleteFunc(refusedPaths(t, err), func(p string) bool { return !within(leaf.path, p) })
		if len(paths) != 1 {
			t.Errorf("%s: refused by %q (%v)", leaf.path, paths, err)
			continue
		}
		for field, use := range table {
			if use == built && within(field, indexes.ReplaceAllString(paths[0], "[]")) {
				t.Errorf("%s: refused as %s, which holds the built %s", leaf.path, paths[0], field)
			}
		}
		refused[paths[0]] = true
	}
	for _, path := range strings.Fields(`
		domainname hooks.prestart hooks.createRuntime hooks.createContainer hooks.startContainer hooks.poststart hooks.poststop
		process.commandLine process.user.username process.apparmorProfile process.selinuxLabel process.scheduler
		process.ioPriority process.execCPUAffinity
		linux.namespaces[0].path linux.seccomp linux.devices linux.netDevices linux.sysctl linux.mountLabel
		linux.intelRdt linux.memoryPolicy linux.personality linux.timeOffsets
		linux.resources.memory.useHierarchy linux.resources.memory.checkBeforeUpdate
		linux.resources.network.classID linux.resources.rdma
		solaris windows vm zos freebsd`) {
		if !refused[path] {
			t.Errorf("nothing was refused as %s", path)
		}
	}
}

// TestBuiltFieldsHideNothing: a path marked built is a leaf that exists, and
// the table holds no other stale paths. A new field can't hide in a known object.
func TestBuiltFieldsHideNothing(t *testing.T) {
	kinds := make(map[string]reflect.Type)
	for _, leaf := range specLeaves() {
		kinds[indexes.ReplaceAllString(leaf.path, "[]")] = leaf.kind
	}
	for _, f := range fieldTable {
		path, use := f.schema, f.use
		exists := false
		for leaf := range kinds {
			exists = exists || within(leaf, path)
		}
		if !exists {
			t.Errorf("%s is not in specs.Spec", path)
		}
		if use == built && kinds[path] == nil {
			t.Errorf("%s is marked built, and isn't a leaf", path)
		}
	}
}

func TestCheckSpecOfPeers(t *testing.T) {
	terminal := Note{"process.terminal", "terminals are not built yet: plain mode, stdin, stdout and stderr pass straight through"}
	devices := Note{"linux.resources.devices", "rules that deny are met without a cgroup: in a user namespace mknod(2) makes no devices, and /dev holds only those bound there"}
	for _, test := range []struct {
		file string
		want []Note
	}{
		{"testdata/crun-rootless.json", []Note{terminal, devices}},
		{"testdata/runc-rootless.json", []Note{terminal}},
	} {
		config, err := os.ReadFile(test.file)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := LoadBundle(writeBundle(t, string(config)))
		if err != nil {
			t.Fatal(err)
		}
		notes, err := CheckSpec(spec)
		if err != nil || !slices.Equal(notes, test.want) {
			t.Errorf("%s: got %+v and %v, want %+v", test.file, notes, err, test.want)
		}
	}
}

// TestCheckSpecValues: fields of which some values are built.
func TestCheckSpecValues(t *testing.T) {
	for _, test := range []struct {
		config         string
		refused, notes []string
	}{
		{`{}`, nil, nil},
		{`{"hooks": {"prestart": []}, "linux": {"sysctl": {}, "resources": {"memory": {}, "unified": {}, "devices": []}}}`, nil, nil},
		{`{"linux": {"intelRdt": {}, "seccomp": {}}}`, []string{"linux.seccomp", "linux.intelRdt"}, nil},
		{`{"ociVersion": "1.99.0"}`, nil, []string{"ociVersion"}},
		{`{"ociVersion": "1.3.0"}`, nil, nil},
		{`{"process": {"terminal": true, "consoleSize": {"height": 5}}}`, nil, []string{"process.terminal", "process.consoleSize"}},
		{`{"process": {"consoleSize": {"height": 5}}}`, nil, nil},
		{`{"process": {"oomScoreAdj": 0}}`, nil, []string{"process.oomScoreAdj"}},
		{`{"process": {"oomScoreAdj": -1}}`, []string{"process.oomScoreAdj"}, nil},
		{`{"process": {"capabilities": {"bounding": ["CAP_KILL", "CAP_FLY"], "ambient": ["CAP_KILL"]}}}`, nil, []string{"process.capabilities.bounding[1]"}},
		{`{"process": {"rlimits": [{"type": "RLIMIT_CORE"}, {"type": "RLIMIT_X"}, {"type": "RLIMIT_CORE", "soft": 2, "hard": 1}]}}`,
			[]string{"process.rlimits[1].type", "process.rlimits[2].type", "process.rlimits[2].soft"}, nil},
		{`{"mounts": [{"destination": "/d", "type": "tmpfs", "source": "tmpfs", "options": ["size=4k", "remount"]}]}`, []string{"mounts[0].options[1]"}, nil},
		{`{"mounts": [{"destination": "/d", "type": "ext4", "source": "/s", "options": ["rbind"]}]}`, nil, nil},
		{`{"mounts": [{"destination": "/d", "type": "ext4", "source": "/s"}, {"destination": "/d", "type": "bind", "source": "/s"}]}`,
			[]string{"mounts[0].type", "mounts[1].type"}, nil},
		{`{"mounts": [{"type": "tmpfs"}, {"destination": "/d", "options": ["bind"]}, {"destination": "/d", "type": "cgroup2"}]}`,
			[]string{"mounts[0].destination", "mounts[1].source", "mounts[2].type"}, nil},
		{`{"mounts": [{"destination": "/d", "source": "/s", "options": ["rbind", "idmap"], "uidMappings": [{"size": 1}], "gidMappings": [{"size": 1}]}]}`, nil, nil},
		{`{"mounts": [{"destination": "/d", "source": "/s", "options": ["rbind"], "uidMappings": [{"size": 1}]},
			{"destination": "/d", "source": "/s", "options": ["rbind"], "gidMappings": [{"size": 1}]}]}`, []string{"mounts[0].gidMappings", "mounts[1].uidMappings"}, nil},
		{`{"mounts": [{"destination": "/d", "type": "tmpfs", "options": ["ro", "idmap"]}, {"destination": "/d", "type": "tmpfs", "uidMappings": [{"size": 1}], "gidMappings": [{"size": 1}]}]}`,
			[]string{"mounts[0].options[1]", "mounts[1].uidMappings"}, nil},
		{`{"linux": {"namespaces": [{"type": "pid"}, {"type": "time"}, {"type": "net"}, {"type": "pid"}, {"type": "network", "path": "/n"}]}}`,
			[]string{"linux.namespaces[4].path", "linux.namespaces[1].type", "linux.namespaces[2].type", "linux.namespaces[3].type"}, nil},
		{`{"linux": {"rootfsPropagation": "rslave"}}`, nil, nil},
		{`{"linux": {"rootfsPropagation": "shared"}}`, []string{"linux.rootfsPropagation"}, nil},
		{`{"linux": {"resources": {"devices": [{"allow": false}, {"allow": true}], "memory": {"useHierarchy": false}}}}`,
			[]string{"linux.resources.memory.useHierarchy", "linux.resources.devices[1]"}, []string{"linux.resources.devices"}},
	} {
		notes, err := CheckSpec(decode(t, test.config))
		var paths []string
		for _, note := range notes {
			paths = append(paths, note.Path)
		}
		if !slices.Equal(paths, test.notes) {
			t.Errorf("%s: notes for %q, want %q", test.config, paths, test.notes)
		}
		if got := refusedPaths(t, err); !slices.Equal(got, test.refused) {
			t.Errorf("%s: refused %q, want %q", test.config, got, test.refused)
		}
	}
}

func TestUnsupportedFieldErrorText(t *testing.T) {
	_, err := CheckSpec(decode(t, `{"linux": {"sysctl": {"kernel.domainname": "x"}, "mountLabel": "l"}}`))
	const want = "config.json: linux.sysctl: setting sysctls is not built yet\n" +
		"  remove it from config.json, and set them in the container's command\n" +
		"config.json: linux.mountLabel: SELinux labels are not built yet\n" +
		"  remove it from config.json"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func BenchmarkCheckSpec(b *testing.B) {
	data, err := os.ReadFile("testdata/runc-rootless.json")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := parseConfig("config.json", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	spec := decode(b, string(data))
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if _, err := CheckSpec(spec); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func decode(t testing.TB, config string) *specs.Spec {
	t.Helper()
	spec := new(specs.Spec)
	if err := json.Unmarshal([]byte(config), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}
