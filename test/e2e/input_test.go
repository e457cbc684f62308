package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each bad input is one clear error, in a second, with nothing left. rootless-containers/rootlesskit#404,
// podman-container-tools/podman#17358 (a limit above the hard one), aristanetworks/bst#34 and others.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir+"/file", "", 0o644)
	empty, closed := dir+"/empty", dir+"/closed"
	os.Mkdir(empty, 0o755)
	write(t, closed+"/etc/x", "", 0o644)
	os.Chmod(closed, 0)
	t.Cleanup(func() { os.Chmod(closed, 0o755) })
	symlink(t, "loop", dir+"/loop")
	for _, test := range []struct {
		args  []string // after the words of the verb; without "--" the command follows in the busybox root
		words []string
	}{
		{[]string{"--rootfs", dir + "/none", "--", "true"}, []string{"the root (--rootfs)", dir + "/none", "ENOENT", "mkdir -p"}},
		{[]string{"--rootfs", empty, "--", "true"}, []string{"the folder is empty", "leave --rootfs out"}},
		{[]string{"--rootfs", file, "--", "true"}, []string{"ENOTDIR", "it has to be a folder"}},
		{[]string{"--rootfs", closed, "--", "true"}, []string{"EACCES", "chmod or chown"}},
		{[]string{"--rootfs", dir + "/loop", "--", "true"}, []string{"ELOOP", dir + "/loop"}},
		{[]string{"--rootfs", "", "--", "true"}, []string{"--rootfs", "empty"}},
		{[]string{"--lower", dir + "/none"}, []string{"the layer (--lower)", "ENOENT"}},
		{[]string{"--upper", dir + "/none"}, []string{"the upper layer (--upper)", "ENOENT"}},
		{[]string{"--upper", file}, []string{"the upper layer (--upper)", "ENOTDIR"}},
		{[]string{"--read-only", "--upper", empty}, []string{"--read-only", "--upper"}},
		{[]string{"--rootfs", "host", "--upper", empty, "--", "true"}, []string{"--rootfs DIR"}},
		{[]string{"--no-such-flag"}, []string{"no-such-flag", "wolffia run --help"}},
		{[]string{"--map", "sideways"}, []string{"--map sideways", "auto, single, host"}},
		{[]string{"--share", "time"}, []string{"--share time", "net, pid, ipc, uts, cgroup"}},
		{[]string{"--preserve-fds", "many"}, []string{"many"}},
		{[]string{"--user", "99999"}, []string{"--user", "uid 99999 isn't in the container's map"}},
		{[]string{"-v", dir + ":relative"}, []string{`"relative"`, "absolute path in the container"}},
		{[]string{"-v", dir + ":/"}, []string{"/", "absolute path below /"}},
		{[]string{"-v", dir + ":/../.."}, []string{"below /"}},
		{[]string{"-v", dir}, []string{"SRC:DST"}},
		{[]string{"-v", dir + "/none:/mnt"}, []string{"the source of the mount at /mnt", dir + "/none", "ENOENT"}},
		{[]string{"-v", closed + "/etc:/mnt"}, []string{"the source of the mount at /mnt", "EACCES"}},
		{[]string{"-v", dir + ":/etc/passwd"}, []string{"ENOTDIR", "the mount point is a file where a folder is needed"}},
		{[]string{"-v", file + ":/etc"}, []string{"/etc"}},
		{[]string{"--read-only", "-v", dir + ":/new"}, []string{"mount point new", "EROFS", "beforehand"}},
		{[]string{"-w", "relative"}, []string{"-w relative", "absolute"}},
		{[]string{"-e", "=x"}, []string{"-e", "NAME=VALUE"}},
		{[]string{"-e", "WOLFFIA_NOT_SET"}, []string{"WOLFFIA_NOT_SET", "isn't set here"}},
		{[]string{"--hostname", strings.Repeat("x", 65)}, []string{"--hostname", "64 bytes"}},
		{[]string{"--hostname", "x", "--share", "uts"}, []string{"hostname", "uts"}},
		{[]string{"--ulimit", "nofile=999999999"}, []string{"RLIMIT_NOFILE", "999999999", "the hard limit of this process is"}},
		{[]string{"--ulimit", "nofile=unlimited"}, []string{"RLIMIT_NOFILE", "unlimited"}},
		{[]string{"--ulimit", "nofile=9:8"}, []string{"--ulimit nofile=9:8"}},
		{[]string{"--ulimit", "fly=1"}, []string{"--ulimit fly=1", "setrlimit(2)"}},
		{[]string{"--ulimit", "nofile"}, []string{"--ulimit nofile"}},
		{[]string{"--result", "9"}, []string{"--result 9", "isn't open"}},
	} {
		args := test.args
		if args[len(args)-1] != "true" {
			args = append([]string{"--rootfs", rootfs}, append(args, "--", "true")...)
		}
		t.Run(strings.ReplaceAll(strings.Join(test.args, " "), dir, ""), func(t *testing.T) {
			run(t, args...).refused(t, test.words...)
		})
	}
	for _, args := range [][]string{{}, {"run"}, {"fly"}, {"run", "--rootfs", rootfs}, {"run", "--"}} {
		r := command{args: append([]string{wolffia}, args...)}.do(t)
		if r.exits(t, 125); r.err == "" || r.out != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"run", "--help"}, {"explain", "-h"}, {"trace", "--help"}, {"version"}} {
		r := command{args: append([]string{wolffia}, args...)}.do(t)
		if out := r.ok(t); args[0] != "version" && !strings.Contains(out, "examples:") {
			t.Errorf("%q has no examples", args)
		}
	}
	if left, _ := filepath.Glob(dir + "/*.work"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Flags stop at the first word that isn't one.
func TestFlagsStop(t *testing.T) {
	for _, args := range [][]string{{"echo", "--rootfs", "-x"}, {"--", "echo", "--rootfs", "-x"}} {
		if out := run(t, append([]string{"--rootfs", rootfs}, args...)...).ok(t); out != "--rootfs -x" {
			t.Errorf("%q: %q", args, out)
		}
	}
}

// Words reach the program as they are, and many of them.
func TestWords(t *testing.T) {
	long := strings.Repeat("x", 120_000)
	script := `printf '<%s>' "$1" "$2" "$3"; echo " $# ${#4}"`
	out := run(t, "--rootfs", rootfs, "-e", "A= b=c", "--", "sh", "-c", script+`; echo "$A"`, "sh", "", "a\nb", `ü$"'`, long, long, long, long, long).ok(t)
	if out != "<><a\nb><ü$\"'> 8 120000\n b=c" {
		t.Errorf("%.200q", out)
	}
}

// The folder that the caller stands in may be gone, and is not the program's.
func TestCallersFolder(t *testing.T) {
	dir := t.TempDir()
	script := `mkdir "$2/gone" && cd "$2/gone" && rmdir "$2/gone" && exec "$0" run --rootfs "$1" -- readlink /proc/self/cwd`
	if out := (command{args: []string{"sh", "-c", script, wolffia, rootfs, dir}}).do(t).ok(t); out != "/" {
		t.Errorf("it stands in %s", out)
	}
	c := command{args: append([]string{wolffia, "run", "--rootfs", "root"}, "--", "true"), dir: filepath.Dir(busybox(t))}
	c.do(t).ok(t)
}

// A machine without /proc, and one whose /sys or /dev something covers.
func TestCoveredMounts(t *testing.T) {
	for dir, words := range map[string][]string{
		"/proc": {"/proc must be mounted"},
		"/sys":  {"mount too revealing", "--share net"},
		"/dev":  {"/dev/null", "ENOENT"},
	} {
		inMounts(t, `mount -t tmpfs t `+dir+` && exec "$0" run --map single --rootfs "$1" -- true`).refused(t, words...)
	}
}

// containers/bubblewrap#160, #371, #764: no namespace left, and no word of a disk.
func TestNamespaceLimit(t *testing.T) {
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		r := inMounts(t, `echo 0 >/proc/sys/user/max_`+kind+`_namespaces && exec "$0" run --map single --rootfs "$1" -- true`)
		r.refused(t, "ENOSPC", "a limit on namespaces is reached, not a disk", "user.max_"+kind+"_namespaces is 0", "outer sandbox")
	}
	deep := inMounts(t, `exec `+strings.Repeat("unshare --user --map-root-user ", 32)+`"$0" run --map single --rootfs "$1" -- true`)
	deep.refused(t, "user namespaces nest 32 deep")
	// containers/bubblewrap#331: one user namespace is enough, whoever the program's user is.
	r := inMounts(t, `echo 1 >/proc/sys/user/max_user_namespaces && exec "$0" run --map single --rootfs "$1" -- true`)
	r.ok(t)
}

// containers/bubblewrap#701, HKUDS/nanobot#4249: that no container can be made here is told apart from a program that
// fails with the same code, and nobody has to read a text for it.
func TestNoContainerHere(t *testing.T) {
	for kind, lane := range map[string]string{"user": "host", "net": "child"} {
		to := t.TempDir() + "/result"
		inMounts(t, `echo 0 >/proc/sys/user/max_`+kind+`_namespaces && exec "$0" run --map single --rootfs "$1" --result `+to+` -- sh -c "exit 125"`).exits(t, 125)
		var res result
		if err := json.Unmarshal([]byte(read(t, to)), &res); err != nil {
			t.Fatal(err)
		}
		if res.Started || res.Error == nil || res.Error.Reason != "step" || res.Error.Lane != lane || res.Error.Errno != "ENOSPC" {
			t.Errorf("%s: %+v", kind, res)
		}
	}
}

// opencontainers/runc#3666, #831: the process limit. In a user namespace of its own nobody else's processes count.
// Below about eight the Go runtime itself may find no thread, before main or for a locked goroutine: its message is
// not ours to change, but it names ulimit -u, and nothing may be left.
func TestProcessLimit(t *testing.T) {
	prlimit := needTool(t, "prlimit")
	worked, ours := false, false
	for n := 1; n <= 16 && !worked; n++ {
		for range 4 {
			word := token()
			r := inMounts(t, fmt.Sprintf(`exec %s --nproc=%d:%[2]d "$0" run --map single --rootfs "$1" -- sh -c "exit 0; %s"`, prlimit, n, word))
			switch {
			case r.code == 0:
				worked = true
			case strings.Contains(r.err, "failed to create new OS thread"):
			default:
				r.refused(t, "process limit reached", fmt.Sprint("RLIMIT_NPROC is ", n))
				ours = true
			}
			eventually(t, "the end of all processes", func() bool { return len(having(word)) == 0 })
		}
	}
	if !worked || !ours {
		t.Errorf("with 16 processes it starts: %v, and the launcher's own error was seen: %v", worked, ours)
	}
}

// opencontainers/runc#5082: few descriptors, for the launcher (its hard limit) and for the program (its soft one).
func TestFewDescriptors(t *testing.T) {
	prlimit := needTool(t, "prlimit")
	for n := 3; n <= 12; n++ {
		for _, mapping := range []string{"single", "auto"} {
			args := append([]string{prlimit, fmt.Sprintf("--nofile=%d:%[1]d", n), wolffia, "run"}, inRoot("true", "--map", mapping)...)
			command{args: args}.do(t).refused(t, "open files", "ulimit -n")
		}
	}
	for n := 3; n <= 12; n++ {
		if out := shell(t, "ulimit -Sn", "--ulimit", fmt.Sprintf("nofile=%d:99", n)); out != fmt.Sprint(n) {
			t.Errorf("nofile=%d: %s inside", n, out)
		}
		args := append([]string{prlimit, fmt.Sprintf("--nofile=%d:", n), wolffia, "run"}, inRoot("ulimit -Sn")...)
		if out := (command{args: args}).do(t).ok(t); out != fmt.Sprint(n) {
			t.Errorf("soft limit %d: %s inside", n, out)
		}
	}
}
