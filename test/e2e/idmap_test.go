package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asHostRoot runs a script as root in a mount namespace of its own, "$0" being wolffia and "$1" the busybox root.
// Unlike inMounts' it belongs to the first user namespace, as that of a host does.
func asHostRoot(t testing.TB, script string, args ...string) ran {
	t.Helper()
	need(t, os.Getuid() == 0, "root")
	return command{args: append([]string{needTool(t, "unshare"), "--mount", "sh", "-c", script, wolffia, rootfs}, args...)}.do(t)
}

// Most hosts share "/" with all mount namespaces. What a container mounts in its idmapped root must not appear there.
func TestRootSharedRoot(t *testing.T) {
	script := `mount -t tmpfs --make-shared -o mode=755 t /mnt && mkdir /mnt/root && cp -a "$1"/. /mnt/root && before=$(cat /proc/self/mountinfo) &&
		"$0" run --rootfs /mnt/root -- grep -c shared: /proc/self/mountinfo; "$0" run --rootfs /mnt/root --read-only -- true && echo started &&
		test "$(cat /proc/self/mountinfo)" = "$before" && echo unchanged`
	if r := asHostRoot(t, script); r.out != "0\nstarted\nunchanged\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
}

// owned is a folder with files of several owners, which the container's root can enter.
func owned(t testing.TB) string {
	t.Helper()
	need(t, os.Getuid() == 0, "root")
	dir := t.TempDir()
	os.Chmod(filepath.Dir(dir), 0o755) // t.TempDir() is for root alone
	write(t, dir+"/of7", "7", 0o600)
	os.Chown(dir+"/of7", 7, 8)
	return dir
}

func ownerOf(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*unixStat)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// The container has an unprivileged range, and files have the owners that they have on disk, both ways.
func TestRootIDMapVolume(t *testing.T) {
	dir := owned(t)
	look := "stat -c %u:%g /mnt /mnt/of7; cat /mnt/of7; touch /mnt/new; touch /mnt/five; chown 5:6 /mnt/five"
	if out := shell(t, look, "-v", dir+":/mnt:idmap"); fields(out) != "0:0\n7:8\n7\n" {
		t.Errorf("inside: %q", out)
	}
	for file, want := range map[string]string{"new": "0:0", "five": "5:6", "of7": "7:8"} {
		if got := ownerOf(t, dir+"/"+file); got != want {
			t.Errorf("on disk %s belongs to %s, want %s", file, got, want)
		}
	}
	plain := run(t, inRoot("stat -c %u:%g /mnt/of7; touch /mnt/plain", "-v", dir+":/mnt")...)
	if plain.out != "65534:65534\n" || !strings.Contains(plain.err, "Permission denied") {
		t.Errorf("without idmap: %+v", plain)
	}
	ro := run(t, inRoot("cat /mnt/of7; touch /mnt/x; grep ' /mnt ' /proc/self/mountinfo", "-v", dir+":/mnt:ro,idmap")...)
	if !strings.HasPrefix(ro.out, "7") || !strings.Contains(ro.err, "Read-only") || !strings.Contains(ro.out, " ro,") {
		t.Errorf("ro,idmap: %+v", ro)
	}
	if out := shell(t, "stat -c %u /mnt/file; cat /mnt/file", "-v", dir+"/of7:/mnt/file:idmap"); fields(out) != "7\n7\n" {
		t.Errorf("a file: %q", out)
	}
	out := run(t, "-v", dir+":/mnt:idmap", "--user", "7:8", "--", "cat", "/mnt/of7").ok(t) // in a view of this machine, as another user
	if out != "7" {
		t.Errorf("as its owner: %q", out)
	}
}

// The clone of a shared mount must not carry what the container mounts to the host; below the top, -v maps everything.
func TestRootIDMapBelow(t *testing.T) {
	script := `mount -t tmpfs --make-shared -o mode=755 t /mnt && mkdir /mnt/sub && mount -t tmpfs -o mode=755 s /mnt/sub && touch /mnt/sub/file /mnt/top && before=$(cat /proc/self/mountinfo) &&
		"$0" run --rootfs "$1" -v /mnt:/mnt:idmap -v /usr:/mnt/sub/new -- sh -c 'stat -c %%u /mnt/top /mnt/sub/file; grep -c shared: /proc/self/mountinfo'
		rmdir /mnt/sub/new; test "$(cat /proc/self/mountinfo)" = "$before" && echo unchanged`
	if r := asHostRoot(t, strings.ReplaceAll(script, "%%", "%")); r.out != "0\n0\n0\nunchanged\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
}

// A mount of a bundle has maps of its own, applied to its top alone or to what is below it too.
func TestRootIDMapBundle(t *testing.T) {
	dir := owned(t)
	os.Chmod(dir, 0o777)
	for _, test := range []struct{ options, below, seen string }{
		{`["rbind","idmap"]`, "65534", "shared 0"},
		{`["rbind","ridmap"]`, "3", "shared 0"},
		{`["rbind"]`, "65534", "shared 0"}, // maps without the option: the runtime-spec only says SHOULD
	} {
		b := bundle(t, func(spec map[string]any) {
			const container = `[{"containerID":0,"hostID":600000,"size":1000}]`
			at(spec, "linux")["uidMappings"], at(spec, "linux")["gidMappings"] = decodeJSON(t, container), decodeJSON(t, container)
			const ownUID = `[{"containerID":0,"hostID":600000,"size":1},{"containerID":7,"hostID":600003,"size":2}]`
			const ownGID = `[{"containerID":0,"hostID":600000,"size":1},{"containerID":8,"hostID":600005,"size":1}]`
			spec["mounts"] = append(spec["mounts"].([]any), decodeJSON(t, `{"destination":"/mnt","source":"/mnt","options":`+test.options+`,"uidMappings":`+ownUID+`,"gidMappings":`+ownGID+`}`))
			at(spec, "process.user")["uid"], at(spec, "process.user")["gid"] = 3, 5
			setArgs(spec, "sh", "-c", "stat -c %u:%g /mnt/of7; stat -c %u /mnt/sub/seven; touch /mnt/new; echo shared $(grep -c shared: /proc/self/mountinfo)")
		})
		script := `mount --bind ` + dir + ` /mnt && mount --make-shared /mnt && mkdir -p /mnt/sub && mount -t tmpfs s /mnt/sub && touch /mnt/sub/seven && chown 7 /mnt/sub/seven && rm -f /mnt/new && "$0" run --bundle ` + b + `; stat -c %u:%g /mnt/new /mnt/of7`
		want := "3:5\n" + test.below + "\n" + test.seen + "\n7:8\n7:8\n"
		if r := asHostRoot(t, script); r.out != want || r.err != "" {
			t.Errorf("%s: %+v, want %q", test.options, r, want)
		}
	}
}

// containers/crun#1382: what can't be idmapped is named, at once, and nothing is changed or left.
func TestRootIDMapRefused(t *testing.T) {
	need(t, os.Getuid() == 0, "root")
	for source, words := range map[string][]string{
		"/proc": {"(proc)", "EINVAL", "made up by the kernel", "plainly"},
		"/sys":  {"(sysfs)", "EINVAL", "no kernel idmaps it"},
		"/dev":  {"(devtmpfs)", "EINVAL"},
	} {
		run(t, inRoot("true", "-v", source+":/mnt:idmap")...).refused(t, append(words, `"`+source+`"`, "mount at /mnt", "MOUNT_ATTR_IDMAP")...)
	}
	script := `mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m && exec "$0" run --rootfs "$1" -v %s:/mnt:idmap -- true`
	asHostRoot(t, fmt.Sprintf(script, "/mnt/m")).refused(t, "(overlay)", "only the layers", "EINVAL")
	asHostRoot(t, fmt.Sprintf(script, "/mnt")).refused(t, "(tmpfs)", "/mnt/m is mounted below it: overlay", "EINVAL")
	// Only the kernel knows of this one: nothing in its type tells that it can't be.
	script = `mount -t ramfs r /mnt && before=$(cat /proc/self/mountinfo) && "$0" run --rootfs "$1" -v /mnt:/mnt:idmap -- true
		code=$?; test "$(cat /proc/self/mountinfo)" = "$before" || echo changed >&2; exit $code`
	asHostRoot(t, script).refused(t, `"idmap /mnt"`, "EINVAL", "ramfs doesn't allow idmapped mounts", "plainly")
}

// opencontainers/runc#3717: an ordinary user is told why and what to do, before anything is started.
func TestIDMapRefused(t *testing.T) {
	need(t, os.Getuid() != 0, "an ordinary user")
	home, _ := os.UserHomeDir()
	for _, flags := range [][]string{nil, {"--map", "single"}} {
		r := run(t, inRoot("true", append(flags, "-v", home+":/mnt:idmap")...)...)
		r.refused(t, "mount at /mnt", home, "EPERM", "CAP_SYS_ADMIN", "chown", "plainly, without idmap")
		if strings.Contains(r.err, "step ") {
			t.Errorf("it was refused by a step, and not before: %s", r.err)
		}
	}
	run(t, inRoot("true", "-v", "/proc:/mnt:idmap")...).refused(t, "(proc)", "EINVAL", "made up by the kernel")
	run(t, inRoot("true", "--tmpfs", "/mnt:idmap")...).refused(t, "options[", "container's ids already")
	if _, res := withResult(t, inRoot("true", "-v", home+":/mnt:idmap")...); res.Error == nil || res.Error.Reason != "idmap" || res.Error.Errno != "EPERM" {
		t.Errorf("%+v", res.Error)
	}
}

// Where he is root of a user namespace, a tmpfs that he mounted there can be idmapped (Linux 6.3), and what the host
// mounted can't: only the kernel can tell, so a step is refused.
func TestIDMapOwnNamespace(t *testing.T) {
	script := `mount -t tmpfs t /mnt && touch /mnt/file && exec "$0" run --map single --rootfs "$1" -v %s:/mnt:idmap -- sh -c 'stat -c %%u /mnt/file; grep " /mnt " /proc/self/mountinfo'`
	if r := inMounts(t, fmt.Sprintf(script, "/mnt")); !strings.HasPrefix(r.out, "0\n") || !strings.Contains(r.out, "idmapped") || r.err != "" {
		t.Errorf("%+v", r)
	}
	inMounts(t, fmt.Sprintf(script, "/usr")).refused(t, `"idmap /mnt"`, "/usr: an id map needs CAP_SYS_ADMIN", "EPERM", "plainly")
}

// The plan shows the launcher's part, for any machine, and nothing runs.
func TestIDMapExplained(t *testing.T) {
	facts := t.TempDir() + "/facts"
	flags := []string{"--rootfs", rootfs, "-v", "/usr:/mnt:idmap"}
	explain(t, append(append([]string{"--facts-save", facts}, flags...), "--", "true")...)
	text := strings.NewReplacer(`"privileged": false`, `"privileged": true, "sys_admin": true`, `"setfcap": false`, `"setfcap": true`).Replace(read(t, facts))
	out := explain(t, append(append([]string{"--facts", write(t, facts, text, 0o644)}, flags...), "--", "true")...).ok(t)
	for _, want := range []string{`open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE`, "{propagation=MS_PRIVATE}", "attr_set=MOUNT_ATTR_IDMAP", "files keep their owners on disk"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
