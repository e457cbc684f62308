package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bundle is an OCI bundle in the busybox root, from the file that `crun spec --rootless` writes.
func bundle(t testing.TB, change func(spec map[string]any)) string {
	t.Helper()
	return bundleFrom(t, read(t, "../../container/testdata/crun-rootless.json"), change)
}

func bundleFrom(t testing.TB, config string, change func(spec map[string]any)) string {
	t.Helper()
	spec := decodeJSON(t, config).(map[string]any)
	spec["root"].(map[string]any)["path"] = rootfs
	spec["root"].(map[string]any)["readonly"] = true
	spec["process"].(map[string]any)["terminal"] = false
	if change != nil {
		change(spec)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir+"/config.json", string(data), 0o644)
	return dir
}

func decodeJSON(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func setArgs(spec map[string]any, args ...string) {
	spec["process"].(map[string]any)["args"] = args
}

// at is the object at a path like "linux.resources", made where it is missing.
func at(spec map[string]any, path string) map[string]any {
	for _, name := range strings.Split(path, ".") {
		next, ok := spec[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			spec[name] = next
		}
		spec = next
	}
	return spec
}

// The files of crun and runc run unchanged: the copies of this repository, and what the tools installed here write.
func TestSpecOfPeers(t *testing.T) {
	for _, tool := range []string{"crun", "runc"} {
		t.Run(tool+"'s copy", func(t *testing.T) {
			config := read(t, "../../container/testdata/"+tool+"-rootless.json")
			config = regexp.MustCompile(`"hostID": *0`).ReplaceAllString(config, `"hostID": `+strconv.Itoa(os.Getuid())) // runc writes the caller's
			dir := t.TempDir()
			write(t, dir+"/config.json", config, 0o644)
			symlink(t, rootfs, dir+"/rootfs")
			checkPeerSpec(t, dir)
		})
		t.Run(tool+" spec --rootless", func(t *testing.T) {
			path, err := exec.LookPath(tool)
			if err != nil {
				t.Skipf("%s isn't installed; its copy was tried", tool) // a peer: no machine has to have it
			}
			dir := t.TempDir()
			command{args: []string{path, "spec", "--rootless"}, dir: dir}.do(t).ok(t)
			symlink(t, rootfs, dir+"/rootfs")
			checkPeerSpec(t, dir)
		})
	}
}

// checkPeerSpec runs the shell that the file names, with a script on stdin, and looks at what the result says.
func checkPeerSpec(t *testing.T, dir string) {
	t.Helper()
	script := "id -u; hostname; ls -d /sys/fs/cgroup; touch /x; cat /proc/self/uid_map; exit 3\n"
	c := command{args: []string{wolffia, "run", "--bundle", dir}, stdin: script}
	r, res := c.withResult(t, 2)
	r.exits(t, 3)
	out := strings.Fields(r.out)
	if len(out) < 6 || out[0] != "0" || out[2] != "/sys/fs/cgroup" || strings.Join(out[3:6], " ") != fmt.Sprint("0 ", os.Getuid(), " 1") {
		t.Errorf("stdout %q", r.out)
	}
	if !strings.Contains(r.err, "terminals are not built yet") || !strings.Contains(r.err, "Read-only file system") {
		t.Errorf("stderr %q", r.err)
	}
	notes := strings.Join(res.Notes, "\n")
	for _, want := range []string{"process.terminal", "/sys/fs/cgroup"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %s in the notes\n%s", want, notes)
		}
	}
}

// What config.json asks for is what the program gets.
func TestBundle(t *testing.T) {
	b := bundle(t, func(spec map[string]any) {
		setArgs(spec, "sh", "-c", `hostname; pwd; umask; echo $A; ulimit -n; grep -E '^Cap(Eff|Prm|Bnd|Amb|Inh)|NoNew' /proc/self/status; grep -c . /mnt/masked; touch /mnt/ro/x`)
		spec["hostname"] = "named"
		p := at(spec, "process")
		p["cwd"], p["env"], p["noNewPrivileges"] = "/etc", []string{"PATH=/bin", "A=b"}, false
		at(spec, "process.user")["umask"] = 0o027
		p["rlimits"] = decodeJSON(t, `[{"type":"RLIMIT_NOFILE","soft":77,"hard":99}]`)
		p["capabilities"] = decodeJSON(t, `{"bounding":["CAP_KILL","CAP_CHOWN"],"permitted":["CAP_KILL","CAP_CHOWN"],"effective":["CAP_KILL"],"inheritable":["CAP_CHOWN"],"ambient":["CAP_CHOWN"]}`)
		dir := t.TempDir()
		write(t, dir+"/masked", "line\n", 0o644)
		write(t, dir+"/ro/file", "", 0o644)
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{"destination": "/mnt", "source": dir, "options": []string{"rbind", "rw"}})
		at(spec, "linux")["maskedPaths"], at(spec, "linux")["readonlyPaths"] = []string{}, []string{"/proc/sys"}
	})
	r := run(t, "--bundle", b)
	want := "named\n/etc\n0027\nb\n77\nCapInh:\t0000000000000001\nCapPrm:\t0000000000000021\nCapEff:\t0000000000000021\nCapBnd:\t0000000000000021\nCapAmb:\t0000000000000001\nNoNewPrivs:\t0\n1\n"
	if r.out != want || r.code != 0 {
		t.Errorf("got\n%s%swant\n%s", r.out, r.err, want)
	}
	over := run(t, "--bundle", b, "-e", "A=c", "-w", "/", "--hostname", "other", "--", "sh", "-c", "hostname; pwd; echo $A")
	if over.out != "other\n/\nc\n" {
		t.Errorf("with flags and a command: %+v", over)
	}
}

// A field that asks for what isn't built is refused by its path, never ignored.
func TestBundleRefused(t *testing.T) {
	for path, value := range map[string]string{
		"linux.seccomp":                  `{"defaultAction":"SCMP_ACT_ALLOW"}`,
		"linux.resources.memory.limit":   `1048576`,
		"linux.resources.pids.limit":     `5`,
		"linux.resources.cpu.quota":      `1000`,
		"linux.sysctl":                   `{"net.ipv4.ip_forward":"1"}`,
		"linux.mountLabel":               `"label"`,
		"linux.rootfsPropagation":        `"shared"`,
		"linux.devices":                  `[{"path":"/dev/fuse","type":"c","major":10,"minor":229}]`,
		"hooks.prestart":                 `[{"path":"/bin/true"}]`,
		"hooks.poststop":                 `[{"path":"/bin/true"}]`,
		"process.apparmorProfile":        `"unconfined"`,
		"process.selinuxLabel":           `"label"`,
		"process.oomScoreAdj":            `-1`, // containers/crun#1302: a plain user can't lower it; neither is built, and neither is dropped
		"process.rlimits":                `[{"type":"RLIMIT_FLY","soft":1,"hard":1}]`,
		"mounts":                         `[{"destination":"/mnt","type":"ext4","source":"/dev/vda"}]`,
		"linux.namespaces":               `[{"type":"user"},{"type":"mount"},{"type":"network","path":"/proc/1/ns/net"}]`,
		"linux.resources.devices":        `[{"allow":true,"access":"rwm"}]`,
		"linux.resources.unified":        `{"memory.max":"1"}`,
		"linux.intelRdt":                 `{"closID":"x"}`,
		"linux.personality":              `{"domain":"LINUX32"}`,
		"process.scheduler":              `{"policy":"SCHED_OTHER"}`,
		"process.ioPriority":             `{"class":"IOPRIO_CLASS_IDLE","priority":1}`,
		"domainname":                     `"x"`,
		"linux.resources.hugepageLimits": `[{"pageSize":"2MB","limit":1}]`,
	} {
		b := bundle(t, func(spec map[string]any) {
			parent, name := spec, path
			if i := strings.LastIndexByte(path, '.'); i >= 0 {
				parent, name = at(spec, path[:i]), path[i+1:]
			}
			parent[name] = decodeJSON(t, value)
			setArgs(spec, "true")
		})
		run(t, "--bundle", b).refused(t, path)
	}
	for config, words := range map[string][]string{
		`{`:                      {"config.json:1:", "not JSON"},
		`{"ociVersion":"1.0.0"}`: {"root.path"},
		`{"ociVersion":"3.0.0","root":{"path":"x"}}`: {"ociVersion", "3.0.0"},
	} {
		dir := t.TempDir()
		write(t, dir+"/config.json", config, 0o644)
		run(t, "--bundle", dir).refused(t, words...)
	}
	run(t, "--bundle", t.TempDir()).refused(t, "no config.json", "crun spec --rootless")
	run(t, "--bundle", bundle(t, nil), "--rootfs", rootfs, "true").refused(t, "--rootfs", "--bundle")
}
