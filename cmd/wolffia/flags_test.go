package main

import (
	"errors"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/container"
	"wolffia.dev/userns"
)

// parsed is what a table looks at after a command line was understood.
func parsed(t testing.TB, verb string, args ...string) *request {
	t.Helper()
	req, err := parse(verb, args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return req
}

func TestParse(t *testing.T) {
	t.Setenv("WOLFFIA_TEST_VAR", "from the caller")
	for _, test := range []struct {
		args string // split at spaces
		look func(r *request) any
		want any
	}{
		{"true", func(r *request) any { return r.opts }, container.Options{Root: container.Root{Kind: container.RootHost},
			Map: userns.Request{Mode: userns.Auto}, AnyUser: true}},
		{"-- true", program, []string{"true"}},
		{"sh -c id", program, []string{"sh", "-c", "id"}},
		{"-u 0 sh -u 1", program, []string{"sh", "-u", "1"}}, // flags end at the first word that isn't one
		{"-- -x --map single", program, []string{"-x", "--map", "single"}},
		{"true -- --share net", program, []string{"true", "--", "--share", "net"}},

		{"--rootfs /r true", rootOf, container.Root{Kind: container.RootOverlay, Path: "/r"}},
		{"--rootfs=/r --lower /a --lower=/b --upper /u true", rootOf,
			container.Root{Kind: container.RootOverlay, Path: "/r", Lower: []string{"/a", "/b"}, Upper: "/u"}},
		{"--rootfs /r/../q --read-only true", rootOf, container.Root{Kind: container.RootReadOnly, Path: "/q"}},

		{"--map single true", mapOf, userns.Request{Mode: userns.Single}},
		{"--map 0:1000:1 true", mapOf, userns.Request{Mode: userns.Spec, UID: userns.IDMap{{Outside: 1000, Length: 1}}, GID: userns.IDMap{{Outside: 1000, Length: 1}}}},
		{"--uid-map 0:1:2 --uid-map 2:5:1 true", mapOf, userns.Request{Mode: userns.Auto, UID: userns.IDMap{{Inside: 0, Outside: 1, Length: 2}, {Inside: 2, Outside: 5, Length: 1}}}},
		{"--gid-map 0:1:2,2:5:1 true", mapOf, userns.Request{Mode: userns.Auto, GID: userns.IDMap{{Inside: 0, Outside: 1, Length: 2}, {Inside: 2, Outside: 5, Length: 1}}}},
		{"-u 5 true", userOf, specs.User{UID: 5}},
		{"--user 5:7 true", userOf, specs.User{UID: 5, GID: 7}},
		{"-u 0 true", func(r *request) any { return r.opts.AnyUser }, false},
		{"--keep-groups --preserve-fds 3 true", func(r *request) any { return []any{r.opts.KeepGroups, r.opts.PreserveFDs} }, []any{true, 3}},

		{"-e A=1 --env B=x=y -e A=2 true", variables("A", "B"), []string{"A=2", "B=x=y"}},
		{"-e WOLFFIA_TEST_VAR true", variables("WOLFFIA_TEST_VAR"), []string{"WOLFFIA_TEST_VAR=from the caller"}},
		{"-e A= true", variables("A"), []string{"A="}},
		{"true", variables("HOME", "PATH"), []string{"HOME=/root", "PATH=" + container.DefaultPath}},
		{"-u 5 true", variables("HOME"), []string{"HOME=/"}},
		{"-u 0:9 true", variables("HOME"), []string{"HOME=/root"}},
		{"-w /x/y true", func(r *request) any { return r.spec.Process.Cwd }, "/x/y"},
		{"true", func(r *request) any { return r.spec.Hostname }, "wolffia"},
		{"--hostname a.b true", func(r *request) any { return r.spec.Hostname }, "a.b"},

		{"--share net,pid --share uts true", shared, []specs.LinuxNamespaceType{specs.NetworkNamespace, specs.PIDNamespace, specs.UTSNamespace}},
		{"--share uts true", func(r *request) any { return r.spec.Hostname }, ""},
		{"--share , true", shared, []specs.LinuxNamespaceType(nil)},
		{"--cap-drop ALL --cap-add net_raw,CAP_KILL true", bounding, []string{"CAP_KILL", "CAP_NET_RAW"}},
		{"--ulimit nofile=10:20 --ulimit RLIMIT_CORE=unlimited true", limits,
			[]specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 10, Hard: 20}, {Type: "RLIMIT_CORE", Soft: ^uint64(0), Hard: ^uint64(0)}}},

		{"-v /a:/b true", lastMount, specs.Mount{Destination: "/b", Source: "/a", Options: []string{"rbind"}}},
		{"-v /a:/b:ro -v /c:/d:rw true", lastMount, specs.Mount{Destination: "/d", Source: "/c", Options: []string{"rbind"}}},
		{"-v /a:/b:ro,idmap true", lastMount, specs.Mount{Destination: "/b", Source: "/a", Options: []string{"rbind", "rro", "ridmap"}}},
		{"-v /a:b:/c:idmap true", lastMount, specs.Mount{Destination: "/c", Source: "/a:b", Options: []string{"rbind", "ridmap"}}},
		{"--tmpfs /t true", lastMount, specs.Mount{Destination: "/t", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}}},
		{"--tmpfs /t:size=1m,ro true", lastMount, specs.Mount{Destination: "/t", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "size=1m", "ro"}}},
		{"--shm-size 1G true", func(r *request) any { return mountAt(r, "/dev/shm").Options }, []string{"nosuid", "noexec", "nodev", "mode=1777", "size=1g"}},
		{"--result 3 true", func(r *request) any { return r.result }, "3"},
	} {
		if got := test.look(parsed(t, "run", strings.Fields(test.args)...)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", test.args, got, test.want)
		}
	}
}

func program(r *request) any { return r.spec.Process.Args }
func rootOf(r *request) any  { return r.opts.Root }
func mapOf(r *request) any   { return r.opts.Map }
func userOf(r *request) any  { return r.spec.Process.User }
func limits(r *request) any  { return r.spec.Process.Rlimits }

func bounding(r *request) any {
	caps := r.spec.Process.Capabilities
	if !slices.Equal(caps.Bounding, caps.Effective) || !slices.Equal(caps.Bounding, caps.Permitted) || caps.Ambient != nil {
		return caps
	}
	return caps.Bounding
}

func lastMount(r *request) any { return r.spec.Mounts[len(r.spec.Mounts)-1] }

func mountAt(r *request, dest string) specs.Mount {
	return r.spec.Mounts[slices.IndexFunc(r.spec.Mounts, func(m specs.Mount) bool { return m.Destination == dest })]
}

func variables(names ...string) func(r *request) any {
	return func(r *request) any {
		var list []string
		for _, name := range names {
			for _, e := range r.spec.Process.Env {
				if strings.HasPrefix(e, name+"=") {
					list = append(list, e)
				}
			}
		}
		return list
	}
}

// shared are the namespaces of the default that are missing.
func shared(r *request) any {
	var list []specs.LinuxNamespaceType
	for _, kind := range []specs.LinuxNamespaceType{specs.UserNamespace, specs.MountNamespace, specs.NetworkNamespace, specs.PIDNamespace,
		specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace} {
		if !slices.ContainsFunc(r.spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind }) {
			list = append(list, kind)
		}
	}
	return list
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("h", 65)
	for _, test := range []struct{ args, want string }{
		{"", "no program was named"},
		{"--", "no program was named"},
		{"--no-such-flag true", "no-such-flag"},
		{"--preserve-fds x true", "preserve-fds"},
		{"--preserve-fds -1 true", "can't be negative"},
		{"--json true", "json"}, // of explain and trace
		{"--rootfs", "needs a value"},
		{"--rootfs= true", "--rootfs: the path is empty"},
		{"--upper /u true", "need --rootfs DIR"},
		{"--read-only true", "need --rootfs DIR"},
		{"--rootfs /r --read-only --upper /u true", "--read-only can't go with"},
		{"--rootfs /r --lower= true", "--lower: the path is empty"},
		{"--bundle /b --rootfs /r true", "--rootfs can't go with --bundle"},
		{"--bundle /b --read-only true", "--read-only can't go with --bundle"},
		{"--bundle /b --share net true", "--share can't go with --bundle"},
		{"--map x true", "--map x"},
		{"--map 0:0 true", "--map 0:0"},
		{"--uid-map 0:1 true", "--uid-map 0:1"},
		{"--gid-map x true", "--gid-map x"},
		{"-u root true", "in numbers"},
		{"-u 1: true", "want UID or UID:GID"},
		{"-u 4294967296 true", "--user"},
		{"-u -1 true", "--user"},
		{"-e =x true", "NAME=VALUE"},
		{"-e WOLFFIA_TEST_UNSET true", "isn't set here"},
		{"-w x true", "absolute path"},
		{"--hostname " + long + " true", "64 bytes"},
		{"--share user true", "always new"},
		{"--share Net true", "one of net, pid"},
		{"--cap-add net_rwa true", "CAP_NET_RAW"},
		{"--cap-add ALL --cap-drop ALL true", "ALL"},
		{"--ulimit nofile true", "NAME=SOFT"},
		{"--ulimit nofile=2:1 true", "soft at most hard"},
		{"--ulimit nofile=x true", "numbers"},
		{"--ulimit nofiles=1 true", "a name of setrlimit(2)"},
		{"--tmpfs t true", "absolute path"},
		{"--share ipc --shm-size 1m true", "no /dev/shm"},
		{"-v /a true", "want SRC:DST"},
	} {
		req, err := parse("run", strings.Fields(test.args))
		var usage *usageError
		if req != nil || !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %q", test.args, err, test.want)
		}
	}
}

func TestParseVolume(t *testing.T) {
	for _, test := range []struct {
		text, source, dest string
		readOnly           bool
	}{
		{"/a:/b", "/a", "/b", false},
		{"/a:/b:ro", "/a", "/b", true},
		{"/a:/b:rw", "/a", "/b", false},
		{"/a:b:/c", "/a:b", "/c", false}, // the source may hold colons
		{"/a:b:/c:ro", "/a:b", "/c", true},
		{"/a:/b:/c", "/a:/b", "/c", false},
		{"/a:ro:/c", "/a:ro", "/c", false},
		{"/a/../b:/c d", "/b", "/c d", false},
		{"::/c", "", "", false}, // the name ":" in this folder
	} {
		m, err := parseVolume(test.text)
		options := []string{"rbind"}
		if test.readOnly {
			options = append(options, "rro")
		}
		if err != nil || test.source != "" && m.Source != test.source || test.dest != "" && m.Destination != test.dest || !slices.Equal(m.Options, options) {
			t.Errorf("%s: %+v, %v", test.text, m, err)
		}
	}
	for _, text := range []string{"", ":", "/a", ":/b", "/a:", "/a:b", "/a:ro", "/a:/b:xx", "/a:/b:", "/a:/b:ro:ro"} {
		if m, err := parseVolume(text); err == nil {
			t.Errorf("%s: %+v", text, m)
		}
	}
}

// A volume's source that was given relative is of this folder.
func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	req := parsed(t, "run", "--rootfs", "r", "--upper", "./u", "-v", "v:/v", "true")
	if req.opts.Root.Path != dir+"/r" || req.opts.Root.Upper != dir+"/u" || lastMount(req).(specs.Mount).Source != dir+"/v" {
		t.Errorf("%+v, %+v", req.opts.Root, lastMount(req))
	}
}

// A name that both --help texts and the parser ought to know.
func TestHelpIsAsked(t *testing.T) {
	for _, verb := range []string{"run", "explain", "trace"} {
		for _, ask := range []string{"--help", "-h", "-help"} {
			if _, err := parse(verb, []string{ask}); !errors.Is(err, flag.ErrHelp) {
				t.Errorf("%s %s: %v", verb, ask, err)
			}
		}
		if req, err := parse(verb, []string{"--", "--help"}); err != nil || !slices.Equal(req.spec.Process.Args, []string{"--help"}) {
			t.Errorf("%s -- --help: %v", verb, err)
		}
	}
}

// Any words give a request or a usage error, and a request is whole.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"run true", "run -- sh -c id", "run --rootfs /r --lower a --upper u -v a:b:/c:ro true", "explain --facts-save f",
		"trace --json --share net,ipc true", "run --map 0:1:2 --uid-map 0:0:0 true", "run -u 1:2 -e A -e B=1 -w / true", "run --shm-size 1 --tmpfs /a:b true",
		"run --ulimit nofile=1:2 --cap-add ALL true", "run --preserve-fds 99999999999 true", "explain --topic x", "run -v : true", "run --=", "run ---x", "run -"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		verb, rest, _ := strings.Cut(line, " ")
		if verb != "run" && verb != "explain" && verb != "trace" {
			return
		}
		if strings.Contains(rest, "bundle") {
			return // reads files
		}
		args := strings.Split(rest, " ")
		req, err := parse(verb, args)
		if err != nil {
			if req != nil || err.Error() == "" {
				t.Fatalf("%q: a request and %v", args, err)
			}
			return
		}
		if req.topic != "" {
			return
		}
		if len(req.spec.Process.Args) == 0 && req.factsSave == "" || req.opts.PreserveFDs < 0 || req.opts.Root.Kind != container.RootHost && req.opts.Root.Path[0] != '/' {
			t.Fatalf("%q: %+v", args, req)
		}
	})
}
