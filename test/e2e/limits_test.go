package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limited runs a script in the busybox root with a result, by whoever a place's user is.
type limited func(t testing.TB, script string, flags ...string) (ran, result)

func here(t testing.TB, script string, flags ...string) (ran, result) {
	t.Helper()
	return withResult(t, inRoot(script, flags...)...)
}

// inForce looks at the effect of each limit, not at what was written: the table of a delegated place.
func inForce(t *testing.T, run limited) {
	t.Run("memory", func(t *testing.T) { memoryInForce(t, run) })
	t.Run("pids", func(t *testing.T) { pidsInForce(t, run) })
	t.Run("cpu", func(t *testing.T) { cpuInForce(t, run) })
}

// allocate touches so many MiB at once: dd's buffer.
func allocate(mib int) string {
	return fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=%dM count=1 2>/dev/null", mib)
}

// containers/crun#223 (in inspect output, not in force), pelagos-containers/pelagos#343 (an OOM seen as exit 0).
func memoryInForce(t *testing.T, run limited) {
	r, res := run(t, "exec "+allocate(200), "--memory", "64m")
	r.exits(t, 137)
	if !strings.Contains(r.err, "killed: out of memory at 64 MiB (memory.max of this container)") {
		t.Errorf("stderr: %q", r.err)
	}
	if len(res.Cgroup.Limits) != 1 || res.Cgroup.Limits[0].Read != "67108864" || res.Cgroup.Limits[0].State != "in force" {
		t.Errorf("ledger: %+v", res.Cgroup)
	}
	if d := res.Cgroup.Death; d.Reason != "oom" || d.OOMKills != 1 || d.Limit != "67108864" || res.Cgroup.OOMKills != 1 {
		t.Errorf("death: %+v", d)
	}
	r, res = run(t, allocate(32)+" && echo fits", "--memory", "64m")
	if r.exits(t, 0); r.out != "fits\n" || res.Cgroup.Death.Reason != "exit" || res.Cgroup.OOMKills != 0 {
		t.Errorf("32 MiB of 64: %+v, %+v", r, res.Cgroup)
	}
	// Something inside is killed, and the first process lives on: its exit code stays its own.
	r, res = run(t, allocate(200)+"; echo $?; exit 4", "--memory", "64m")
	if r.exits(t, 4); r.out != "137\n" || res.Cgroup.Death.Reason != "exit" || res.Cgroup.OOMKills != 1 || !strings.Contains(r.err, "its first process lived on") {
		t.Errorf("%+v, %+v", r, res.Cgroup)
	}
	// hashicorp/nomad#12735: SIGKILL by an operator is no OOM.
	r, res = run(t, "kill -9 $$", "--memory", "64m", "--share", "pid")
	if r.exits(t, 137); res.Cgroup.Death.Reason != "signal" || strings.Contains(r.err, "memory") {
		t.Errorf("%+v, %+v", r, res.Cgroup)
	}
}

// One shell and as many sleeps as the limit leaves; the next fork fails.
func pidsInForce(t *testing.T, run limited) {
	r, res := run(t, "i=0; while sleep 20 & do i=$((i+1)); echo $i; done", "--pids-limit", "8")
	if r.out != "1\n2\n3\n4\n5\n6\n7\n" || !strings.Contains(r.err, "can't fork") || !strings.Contains(r.err, "pids.max of this container refused") {
		t.Errorf("%+v", r)
	}
	if len(res.Cgroup.Limits) != 1 || res.Cgroup.Limits[0].Read != "8" {
		t.Errorf("ledger: %+v", res.Cgroup)
	}
}

// A busy loop gets a fifth of one CPU: 2 s of it are 40 ticks of 10 ms, and without the limit up to 200.
func cpuInForce(t *testing.T, run limited) {
	r, res := run(t, `while :; do :; done & p=$!; sleep 2; cut -d " " -f 14,15 /proc/$p/stat; kill $p`, "--cpus", "0.2")
	user, system, _ := strings.Cut(strings.TrimSpace(r.out), " ")
	a, _ := strconv.Atoi(user)
	b, err := strconv.Atoi(system)
	if err != nil || a+b > 100 {
		t.Errorf("%d ticks in 2 s: %+v", a+b, r)
	}
	for _, l := range res.Cgroup.Limits {
		if l.State != "in force" {
			t.Errorf("ledger: %+v", res.Cgroup)
		}
	}
}

// refusedLimits: none of them is in force, each is told with its controller, and nothing starts; with --limits=try the
// container starts, and stderr and the result say what is missing. containers/crun#1785: no silence.
func refusedLimits(t *testing.T, run limited, words ...string) {
	t.Helper()
	for flag, value := range map[string]string{"--memory": "64m", "--cpus": "0.5", "--pids-limit": "20"} {
		r, res := run(t, "echo ran", flag, value)
		if r.exits(t, 125); r.out != "" || res.Started || res.Error.Reason != "limits" {
			t.Errorf("%s: %+v, %+v", flag, r, res)
		}
		for _, word := range append(words, flag+" "+value, "can't be in force") {
			if !strings.Contains(r.err, word) {
				t.Errorf("%s: no %q in %s", flag, word, r.err)
			}
		}
		r, res = run(t, "echo ran", flag, value, "--limits", "try")
		if r.exits(t, 0); r.out != "ran\n" || !strings.Contains(r.err, "can't be in force") {
			t.Errorf("%s, try: %+v", flag, r)
		}
		if strings.Count(r.err, "in force") != 1 || len(res.Cgroup.Warnings) != 1 {
			t.Errorf("%s, try: told once, and in the result: %+v, %+v", flag, r, res.Cgroup)
		}
		if l := res.Cgroup.Limits; len(l) != 1 || l[0].State != "not in force" || l[0].Cause == "" {
			t.Errorf("%s, try: %+v", flag, res.Cgroup)
		}
	}
}

// This machine's own layout: a hybrid one, of which nothing is delegated to the user.
func TestLimitsRefused(t *testing.T) {
	refusedLimits(t, here, "isn't delegated to uid", "\n  ")
}

func TestLimitsNonsense(t *testing.T) {
	for flags, word := range map[string]string{
		"--memory 0": "--memory", "--memory 64x": "64x", "--memory -5": "--memory", "--cpus 0": "--cpus", "--cpus -1": "--cpus",
		"--pids-limit 0": "--pids-limit", "--pids-limit many": "many", "--cpu-weight 0": "--cpu-weight", "--cpuset-cpus x": "--cpuset-cpus",
		"--memory-swap 64m": "--memory", "--cgroup-conf nonsense": "--cgroup-conf", "--cgroup-conf ../x=1": "--cgroup-conf",
		"--limits never": "require", "--cgroup rx": "--cgroup", "--cgroup-manager dbus": "--cgroup-manager",
	} {
		run(t, append(strings.Fields(flags), "--rootfs", rootfs, "--", "true")...).refused(t, word)
	}
}

// A limit that a start itself wouldn't survive: the kernel would kill the launcher too.
func TestRootLimitsTooSmall(t *testing.T) {
	delegate(t, "memory")
	for _, flag := range []string{"--memory 4096", "--memory 100k", "--memory 2m"} {
		r, res := userRun(t, "true", append(strings.Fields(flag), "--cgroup-parent", "wolffia-e2e")...)
		if r.exits(t, 125); !strings.Contains(r.err, "give it at least 2.") && !strings.Contains(r.err, "give it at least 3.") || res.Error == nil {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	r, _ := userRun(t, "true", "--memory", "4m", "--cgroup-parent", "wolffia-e2e")
	r.exits(t, 0)
	// Nor one that lies above.
	write(t, delegated(t, "memory")+"/memory.limit_in_bytes", "1048576", 0o644)
	r, _ = userRun(t, "true", "--memory", "64m", "--cgroup-parent", "wolffia-e2e")
	r.refused(t, "a memory limit there or above it is 1 MiB", "--cgroup-parent")
	noGroupsLeft(t)
}

// delegate gives the user a folder named wolffia-e2e in the v1 hierarchies of these controllers, below our own cgroup.
func delegate(t *testing.T, controllers ...string) {
	t.Helper()
	need(t, os.Getuid() == 0, "root")
	uid, gid := userIDs(t)
	for _, controller := range controllers {
		dir := delegated(t, controller)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Rmdir(dir); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
		})
		for _, file := range []string{".", "cgroup.procs"} {
			if err := os.Chown(filepath.Join(dir, file), uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// delegated is that folder.
func delegated(t *testing.T, controller string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/self/cgroup")) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); slices.Contains(strings.Split(f[1], ","), controller) {
			return filepath.Join("/sys/fs/cgroup", controller, f[2], "wolffia-e2e")
		}
	}
	need(t, false, "a v1 hierarchy of "+controller)
	return ""
}

func userIDs(t testing.TB) (uid, gid int) {
	c := asUser(t, "0")
	uid, _ = strconv.Atoi(c.args[2])
	gid, _ = strconv.Atoi(c.args[4])
	return uid, gid
}

// userRun is a run by the ordinary user, whose result is written to a folder of his.
func userRun(t testing.TB, script string, flags ...string) (ran, result) {
	t.Helper()
	_, gid := userIDs(t)
	c := asUser(t, strconv.Itoa(gid), append([]string{wolffia, "run"}, inRoot(script, flags...)...)...)
	return c.withResultIn(t, slices.Index(c.args, "run")+1, userDir(t))
}

// userDir is a folder of the ordinary user's.
func userDir(t testing.TB) string {
	t.Helper()
	uid, gid := userIDs(t)
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A hybrid layout whose v1 controllers were delegated to the user: the folder is named.
func TestRootLimitsV1(t *testing.T) {
	delegate(t, "memory", "cpu", "pids")
	inForce(t, func(t testing.TB, script string, flags ...string) (ran, result) {
		t.Helper()
		return userRun(t, script, append(flags, "--cgroup-parent", "wolffia-e2e")...)
	})
	r, res := userRun(t, "true", "--memory", "64m", "--cgroup-parent", "wolffia-e2e")
	if r.exits(t, 0); len(res.Cgroup.Groups) != 1 || res.Cgroup.Groups[0].Placement != "v1" {
		t.Errorf("%+v", res.Cgroup)
	}
	c := asUser(t, "0", wolffia, "explain", "--memory", "64m", "--cgroup-parent", "wolffia-e2e", "--rootfs", rootfs, "--", "true")
	if out := c.do(t).ok(t); !strings.Contains(out, "Limits, each read back") || !strings.Contains(out, "memory.limit_in_bytes = 67108864: planned") {
		t.Errorf("explain: %s", out)
	}
	// A limit whose controller was not delegated: nothing of the others is written either.
	r, _ = userRun(t, "true", "--memory", "64m", "--cpuset-cpus", "0", "--cgroup-parent", "wolffia-e2e")
	if r.exits(t, 125); !strings.Contains(r.err, "cpuset") {
		t.Errorf("%+v", r)
	}
	r, _ = userRun(t, "true", "--memory", "64m", "--cgroup", "rw", "--cgroup-parent", "wolffia-e2e")
	if r.exits(t, 125); !strings.Contains(r.err, "cgroup v2") {
		t.Errorf("--cgroup rw on v1: %+v", r)
	}
	noGroupsLeft(t)
}

// Without a pid namespace nothing ends what the first process started. It is told by its number, the program's exit
// code stays the program's, and the cgroup goes with a later start. It isn't mistaken for a failure of the launcher.
func TestRootLimitsOutlived(t *testing.T) {
	delegate(t, "memory", "pids")
	word := token()
	flags := []string{"--memory", "64m", "--cgroup-parent", "wolffia-e2e"}
	r, res := userRun(t, "sleep "+word+" >/dev/null 2>&1 </dev/null & echo $!; exit 4", append(flags, "--share", "pid")...)
	if r.exits(t, 4); !strings.Contains(r.err, "live on") || !strings.Contains(r.err, "kill "+strings.TrimSpace(r.out)) || !strings.Contains(strings.Join(res.Notes, "\n"), "live on") {
		t.Errorf("%+v, %q", r, res.Notes)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(r.out))
	if err != nil {
		t.Fatalf("%+v", r)
	}
	unix.Kill(pid, unix.SIGKILL)
	eventually(t, "it ends", func() bool { return len(having(word)) == 0 })
	r, _ = userRun(t, "true", flags...)
	r.exits(t, 0)
	noGroupsLeft(t)
}

// A fork that an outer pids.max refused isn't laid at the container's own door.
func TestRootLimitsOuterPids(t *testing.T) {
	delegate(t, "pids")
	write(t, delegated(t, "pids")+"/pids.max", "12", 0o644)
	r, res := userRun(t, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 0.2 & done; wait", "--pids-limit", "500", "--cgroup-parent", "wolffia-e2e")
	if !strings.Contains(r.err, "an outer limit is tighter") || !strings.Contains(r.err, "pids.max of another cgroup") || strings.Contains(r.err, "pids.max of this container") || len(res.Cgroup.Warnings) != 1 {
		t.Errorf("%+v, %+v", r, res.Cgroup)
	}
	noGroupsLeft(t)
}

// opencontainers/runc#234: 1,000 short runs, 20 of whose launchers are killed, leave no folder that the next command
// doesn't remove.
func TestRootLimitsRemoved(t *testing.T) {
	delegate(t, "memory", "pids")
	flags := []string{"--memory", "64m", "--pids-limit", "50", "--cgroup-parent", "wolffia-e2e"}
	_, gid := userIDs(t)
	for i := range 1000 {
		if i%50 != 0 {
			r, _ := userRun(t, "true", flags...)
			r.exits(t, 0)
			continue
		}
		word := token()
		c := asUser(t, strconv.Itoa(gid), append([]string{wolffia, "run"}, inRoot("exec sleep "+word, flags...)...)...)
		p := c.exec()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it runs", func() bool { return len(having("sleep "+word)) > 1 }) // and the launcher, whose words are the same
		p.Process.Kill()                                                                // setpriv has become wolffia by exec
		p.Wait()
		eventually(t, "the container ends with its launcher", func() bool { return len(having(word)) == 0 })
	}
	r, _ := userRun(t, "true", flags...)
	r.exits(t, 0)
	noGroupsLeft(t)
}

// ownGroup are the names of folders that wolffia makes.
var ownGroup = regexp.MustCompile(`^wolffia-(launcher-)?[0-9]+-[0-9a-f]+(\.scope)?$`)

// noGroupsLeft looks for folders of ours in all hierarchies. Those in somebody's folder that is named like the test's own
// are his.
func noGroupsLeft(t testing.TB) {
	t.Helper()
	left := ""
	eventually(t, "no control group is left", func() bool {
		left = ""
		filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir() || !strings.HasPrefix(d.Name(), "wolffia-") || d.Name() == "wolffia-e2e":
				return nil
			case ownGroup.MatchString(d.Name()):
				left += path + "\n"
			}
			return filepath.SkipDir
		})
		return left == ""
	})
	if left != "" {
		t.Error(left)
	}
}

// podman-container-tools/podman#5488: without limits nothing of cgroups is touched; with them it is told what is missing.
func TestRootLimitsNoCgroupfs(t *testing.T) {
	refusedLimits(t, func(t testing.TB, script string, flags ...string) (ran, result) {
		t.Helper()
		_, gid := userIDs(t)
		c := asUser(t, strconv.Itoa(gid), append([]string{wolffia, "run"}, inRoot(script, flags...)...)...)
		c.args = append([]string{needTool(t, "unshare"), "--mount", "sh", "-c", `umount -R -l /sys/fs/cgroup && exec "$@"`, "sh"}, c.args...)
		return c.withResultIn(t, slices.Index(c.args, "run")+1, userDir(t))
	}, "/sys/fs/cgroup")
}
