package e2e

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ranges are this user's lines in /etc/subuid or /etc/subgid (subuid(5)).
func ranges(t testing.TB, file string) (list [][2]int) {
	t.Helper()
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	for line := range strings.Lines(read(t, file)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 3 && (f[0] == name || f[0] == strconv.Itoa(os.Getuid())) {
			first, _ := strconv.Atoi(f[1])
			count, _ := strconv.Atoi(f[2])
			list = append(list, [2]int{first, count})
		}
	}
	need(t, len(list) > 0, "subordinate ids of "+name+" in "+file)
	return list
}

// autoMap is our own id as 0 and every subordinate id after it.
func autoMap(t testing.TB, own int, file string) string {
	text, inside := fmt.Sprintf("0 %d 1\n", own), 1
	for _, r := range ranges(t, file) {
		text += fmt.Sprintf("%d %d %d\n", inside, r[0], r[1])
		inside += r[1]
	}
	return text
}

// fields makes the kernel's columns single spaces.
func fields(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// util-linux/util-linux#4457 (the last sub-id was wasted), golang/go#10626 and #50098 (setgroups, the helpers),
// genuinetools/img#56 (who writes the map)
func TestMap(t *testing.T) {
	uid, gid := os.Getuid(), os.Getgid()
	sub, gsub := ranges(t, "/etc/subuid")[0][0], ranges(t, "/etc/subgid")[0][0]
	for _, test := range []struct {
		flags         string
		uids, gids    string
		setgroups, id string
	}{
		{"", autoMap(t, uid, "/etc/subuid"), autoMap(t, gid, "/etc/subgid"), "allow", "0 0"},
		{"--map auto --user 1000:1001", autoMap(t, uid, "/etc/subuid"), autoMap(t, gid, "/etc/subgid"), "allow", "1000 1001"},
		{"--map single", fmt.Sprintf("0 %d 1\n", uid), fmt.Sprintf("0 %d 1\n", gid), "deny", "0 0"},
		{"--map host", fmt.Sprintf("%d %[1]d 1\n", uid), fmt.Sprintf("%d %[1]d 1\n", gid), "deny", fmt.Sprint(uid, " ", gid)},
		{fmt.Sprintf("--map 0:%d:10", sub), fmt.Sprintf("0 %d 10\n", sub), fmt.Sprintf("0 %d 10\n", sub), "allow", "0 0"},
		{fmt.Sprintf("--map 5:%d:10 --user 7:8", sub), fmt.Sprintf("5 %d 10\n", sub), fmt.Sprintf("5 %d 10\n", sub), "allow", "7 8"},
		{fmt.Sprintf("--uid-map 0:%d:1 --uid-map 1:%d:5 --gid-map 0:%d:1 --user 3", uid, sub, gid),
			fmt.Sprintf("0 %d 1\n1 %d 5\n", uid, sub), fmt.Sprintf("0 %d 1\n", gid), "deny", "3 0"},
		{fmt.Sprintf("--uid-map 0:%d:1 --gid-map 0:%d:1,1:%d:9 --user 0:9", uid, gid, gsub),
			fmt.Sprintf("0 %d 1\n", uid), fmt.Sprintf("0 %d 1\n1 %d 9\n", gid, gsub), "allow", "0 9"},
	} {
		t.Run(test.flags, func(t *testing.T) {
			script := "cat /proc/self/uid_map; echo; cat /proc/self/gid_map; echo; cat /proc/self/setgroups; echo $(id -u) $(id -g)"
			r, res := withResult(t, inRoot(script, strings.Fields(test.flags)...)...)
			if want := test.uids + "\n" + test.gids + "\n" + test.setgroups + "\n" + test.id + "\n"; fields(r.out) != want {
				t.Errorf("got\n%swant\n%s%s", fields(r.out), want, r.err)
			}
			if got := res.Maps.text(); got != test.uids+"\n"+test.gids+"\n"+test.setgroups {
				t.Errorf("the result says\n%s", got)
			}
		})
	}
}

func (m resultMaps) text() string {
	lines := func(list []string) (s string) {
		for _, e := range list {
			s += strings.ReplaceAll(e, ":", " ") + "\n"
		}
		return s
	}
	return lines(m.UID) + "\n" + lines(m.GID) + "\n" + m.Setgroups
}

// A file made by the container's root is ours, one by its other users a subordinate id's.
func TestOwnersOutside(t *testing.T) {
	dir := t.TempDir()
	shell(t, "touch /mnt/root /mnt/other; chown 1000:1001 /mnt/other; mkdir -m 700 /mnt/dir; touch /mnt/dir/x; chown -R 5 /mnt/dir", "-v", dir+":/mnt")
	var st unix.Stat_t
	for name, want := range map[string][2]int{"root": {os.Getuid(), os.Getgid()},
		"other": {ranges(t, "/etc/subuid")[0][0] + 999, ranges(t, "/etc/subgid")[0][0] + 1000}} {
		if err := unix.Stat(dir+"/"+name, &st); err != nil || st.Uid != uint32(want[0]) || st.Gid != uint32(want[1]) {
			t.Errorf("%s belongs to %d:%d, want %v (%v)", name, st.Uid, st.Gid, want, err)
		}
	}
	shell(t, "rm -r /mnt/dir /mnt/other", "-v", dir+":/mnt") // ours to remove only from inside
}

// Supplementary groups: dropped where they can be, kept on demand, and said where neither.
func TestGroups(t *testing.T) {
	if out := shell(t, "grep Groups: /proc/self/status"); strings.TrimSpace(out) != "Groups:" {
		t.Errorf("by default %q", out)
	}
	r := run(t, inRoot("grep Groups: /proc/self/status", "--keep-groups")...)
	if r.exits(t, 0); !strings.Contains(r.err, "supplementary groups of the caller are kept") || len(strings.Fields(r.out)) < 2 {
		t.Errorf("kept: %+v", r)
	}
	run(t, inRoot("true", "--keep-groups", "--user", "1:1")...).refused(t, "--keep-groups", "setgroups(2)")
}

// rootless-containers/rootlesskit#404 and #326: a helper without privilege, first in PATH or alone in it.
func TestHelperWithoutPrivilege(t *testing.T) {
	needTool(t, "newuidmap")
	bad := t.TempDir()
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		write(t, bad+"/"+tool, "#!/bin/sh\necho ran >&2\nexit 1\n", 0o755)
	}
	for _, path := range []string{bad + ":" + os.Getenv("PATH"), bad} {
		c := command{args: append([]string{wolffia}, inRootRun("true")...), env: []string{"PATH=" + path}}
		r, res := c.withResult(t, 2)
		r.ok(t)
		for _, tool := range []string{"newuidmap", "newgidmap"} {
			if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "passed over: "+bad+"/"+tool+" (owner uid") {
				t.Errorf("nothing of %s in the notes %s", tool, notes)
			}
		}
	}
	c := command{args: append([]string{wolffia}, inRootRun("true", "--map", "single")...), env: []string{"PATH=" + bad}}
	c.do(t).ok(t) // needs none
}

// containers/crun#1088: one helper that lacks its privilege, in a mount namespace of its own.
func TestRootHelperBroken(t *testing.T) {
	tool := needTool(t, "newgidmap")
	plain := write(t, t.TempDir()+"/newgidmap", "#!/bin/sh\nexit 1\n", 0o755)
	for _, test := range []struct{ broken, word string }{
		{"mount --bind " + plain + " " + tool, "no set-uid bit and no file capability CAP_SETGID"},
		{"mount --bind /usr/bin /usr/bin && mount -o remount,bind,nosuid /usr/bin", "nosuid"},
	} {
		for flags, words := range map[string][]string{"auto": {tool, test.word, "--map single"}, "single": nil} {
			c := asUser(t, "12345", wolffia, "run", "--rootfs", os.Getenv("WOLFFIA_ROOTFS"), "--read-only", "--map", flags, "--", "true")
			c.args = append([]string{needTool(t, "unshare"), "--mount", "sh", "-c", test.broken + ` && exec "$0" "$@"`}, c.args...)
			if r := c.do(t); words != nil {
				r.refused(t, words...)
			} else {
				r.exits(t, 0)
			}
		}
	}
}

// moby/buildkit#3297 (a range that the parent's map lacks), podman-container-tools/podman#8816 (one that crosses two of
// its extents), util-linux/util-linux#3120 (a launcher inside a launcher)
func TestNestedMap(t *testing.T) {
	unshare := needTool(t, "unshare")
	inside := func(args ...string) ran {
		return command{args: append([]string{unshare, "--user", "--map-auto", "--map-root-user", wolffia, "run"}, args...)}.do(t)
	}
	show := inRoot("cat /proc/self/uid_map")
	if out := fields(inside(append([]string{"--map", "0:0:100"}, show...)...).ok(t)); out != "0 0 1\n1 1 99\n" {
		t.Errorf("0:0:100 became\n%s", out)
	}
	inside(append([]string{"--map", "0:100000:65536"}, show...)...).refused(t, "ids 100000-165535 don't exist in this namespace", "0, 1-65535", "--map single")
	if out := fields(inside(append([]string{"--map", "single"}, show...)...).ok(t)); out != "0 0 1\n" {
		t.Errorf("single became\n%s", out)
	}
	c := command{args: append([]string{unshare, "--user", "--map-root-user", wolffia, "run"}, inRoot("true")...)}
	c.do(t).refused(t, "--map single")
}

// util-linux/util-linux#3838 (overlap), opencontainers/runtime-spec#693 (how many lines), containerd/containerd#5890
// (what is a map): each before anything is started.
func TestMapRefused(t *testing.T) {
	sub := ranges(t, "/etc/subuid")[0][0]
	var many []string
	for i := range 341 {
		many = append(many, fmt.Sprintf("%d:%d:1", 2*i, sub+i))
	}
	for _, test := range []struct {
		flags string
		words []string
	}{
		{fmt.Sprintf("--map 0:%d:10,5:%d:10", sub, sub+20), []string{"overlap", "inside ids 5-9"}},
		{fmt.Sprintf("--map 0:%d:10,10:%d:10", sub, sub+9), []string{"overlap"}},
		{"--map 0:1:4294967295", []string{"4294967295"}},
		{"--map 4294967290:100:10", []string{"4294967290"}},
		{"--map 0:0:1", []string{"uids 0 are not delegated"}},
		{"--map 0:999999999:1", []string{"999999999"}},
		{"--map 0:0", []string{"--map 0:0"}},
		{"--map -1:0:1", []string{"-1"}},
		{"--map a:b:c", []string{"a:b:c"}},
		{"--map 0:1:0", []string{"0:1:0"}},
		{"--map 1:2:3:4:5", []string{"1:2:3:4:5"}},
		{"--map " + strings.Join(many, ","), []string{"340", "4095"}},
		{"--map single --user 1", []string{"--user: uid 1 isn't in the container's map", "0 " + strconv.Itoa(os.Getuid()) + " 1"}},
		{"--user 0:70000", []string{"gid 70000"}},
		{"--user name", []string{"--user name"}},
		{"--user 5000000000", []string{"--user 5000000000"}},
	} {
		t.Run(test.flags[:min(len(test.flags), 40)], func(t *testing.T) {
			run(t, inRoot("true", strings.Fields(test.flags)...)...).refused(t, test.words...)
		})
	}
}

// TestRootMap: started by root the container still has no privilege over the host, and files keep their owners on disk.
func TestRootMap(t *testing.T) {
	need(t, os.Getuid() == 0, "root")
	r, res := withResult(t, inRoot("cat /proc/self/uid_map; stat -c %u /bin/busybox; touch /etc/new; stat -c %u /etc/new; echo $(id -u)")...)
	out := strings.Split(strings.TrimSpace(fields(r.ok(t))), "\n")
	var inside, outside, count int
	fmt.Sscan(out[0], &inside, &outside, &count)
	if inside != 0 || outside < 100000 || count < 65536 || strings.Join(out[1:], " ") != "0 0 0" {
		t.Errorf("%q\n%v", out, res.Notes)
	}
	if len(res.Maps.UID) == 0 || res.Maps.UID[0] != fmt.Sprintf("0:%d:%d", outside, count) {
		t.Errorf("the result's map: %v", res.Maps.UID)
	}
	upper := t.TempDir() + "/upper"
	os.Mkdir(upper, 0o755)
	run(t, inRoot("true", "--upper", upper)...).refused(t, "--upper", "--map host") // one folder only can be idmapped
	shell(t, "touch /kept; chown 7:8 /kept", "--upper", upper, "--map", "host")
	if out := shell(t, "stat -c %u:%g /kept", "--upper", upper, "--map", "host"); out != "7:8" {
		t.Errorf("an upper layer's file came back as %s", out)
	}
	if out := shell(t, "cat /proc/self/uid_map", "--map", "host"); fields(out) != "0 0 4294967295\n" {
		t.Errorf("--map host: %s", out)
	}
	out2 := run(t, "--rootfs", rootfs, "--read-only", "--", "stat", "-c", "%u", "/bin/busybox").ok(t)
	if out2 != "0" {
		t.Errorf("read-only: owner %s", out2)
	}
}

// containerd/containerd#1610: more ids than 16 bits hold, and stdio that belongs to nobody inside.
func TestRootManyIDs(t *testing.T) {
	need(t, os.Getuid() == 0, "root")
	c := command{args: append([]string{wolffia}, inRootRun("cat; id -u; cat /proc/self/uid_map", "--map", "0:600000:70000", "--user", "69999:69999")...), stdin: "in\n"}
	if out := fields(c.do(t).ok(t)); out != "in\n69999\n0 600000 70000\n" {
		t.Errorf("%q", out)
	}
}

// asUser is a command as the ordinary user, from root.
func asUser(t testing.TB, groups string, args ...string) command {
	t.Helper()
	need(t, os.Getuid() == 0, "root")
	name := os.Getenv("WOLFFIA_TEST_USER")
	if name == "" {
		name = "wolffia-test"
	}
	u, err := user.Lookup(name)
	need(t, err == nil, "the user "+name)
	return command{args: append([]string{needTool(t, "setpriv"), "--reuid", u.Uid, "--regid", u.Gid, "--groups", groups}, args...),
		env: []string{"HOME=" + u.HomeDir}}
}

// opencontainers/runtime-spec#1020: a folder that a secondary group may enter.
func TestRootGroups(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(filepath.Dir(dir), 0o755) // t.TempDir() is for root alone
	write(t, dir+"/shared/file", "text", 0o644)
	os.Chown(dir+"/shared", 0, 54321)
	os.Chmod(dir+"/shared", 0o770)
	root := os.Getenv("WOLFFIA_ROOTFS")
	start := func(flags ...string) ran {
		return asUser(t, "54321", append(append([]string{wolffia, "run", "--rootfs", root, "--read-only", "-v", dir + ":/mnt"}, flags...),
			"--", "cat", "/mnt/shared/file")...).do(t)
	}
	if r := start(); r.code != 1 || !strings.Contains(r.err, "Permission denied") {
		t.Errorf("by default: %+v", r)
	}
	if r := start("--keep-groups"); r.code != 0 || r.out != "text" || !strings.Contains(r.err, "are kept") {
		t.Errorf("--keep-groups: %+v", r)
	}
	if r := start("--map", "single"); r.out != "text" || !strings.Contains(r.err, "could not be dropped") {
		t.Errorf("--map single: %+v", r)
	}
}

// containers/bubblewrap#198: /proc with hidepid.
func TestRootHidepid(t *testing.T) {
	c := asUser(t, "12345", wolffia, "run", "--rootfs", os.Getenv("WOLFFIA_ROOTFS"), "--read-only", "--", "true")
	c.args = append([]string{needTool(t, "unshare"), "--mount", "sh", "-c", `mount -t proc -o hidepid=2 proc /proc && exec "$0" "$@"`}, c.args...)
	for range 10 {
		if r := c.do(t); r.code != 0 && !strings.Contains(r.err, "hidepid") {
			t.Fatalf("%+v", r)
		}
	}
}

// rootless-containers/rootlesskit#141 (a user without sub-ids is told the command that gives him some)
func TestRootNoSubIDs(t *testing.T) {
	need(t, os.Getuid() == 0, "root")
	c := command{args: []string{needTool(t, "setpriv"), "--reuid", "59999", "--regid", "59999", "--clear-groups",
		wolffia, "run", "--rootfs", os.Getenv("WOLFFIA_ROOTFS"), "--read-only", "--", "true"}}
	c.do(t).refused(t, "no subordinate uids", "no subordinate gids", "usermod --add-subuids", "--map single")
	c.args = append(c.args[:len(c.args)-2], "--map", "single", "--", "true")
	c.do(t).ok(t)
}
