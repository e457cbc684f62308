package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"wolffia.dev/userns"
)

const mainHelp = `wolffia starts rootless containers. A container is a syscall program:
a printable list of system calls that one process executes.

usage:
  wolffia run     [flags] [--] CMD [ARG…]   start a container and wait for its end
  wolffia explain [flags] [--] CMD [ARG…]   print its system calls with their reasons; nothing runs
  wolffia trace   [flags] [--] CMD [ARG…]   run it, then print what each call returned and took
  wolffia doctor  [flags]                   try what this machine lets us do, and tell what mends the rest
  wolffia version                           print the version

examples:
  wolffia run -- sh                        a throw-away view of this machine
  wolffia run --rootfs DIR -- /bin/sh      an unpacked image, changes thrown away
  wolffia run --bundle DIR                 an OCI bundle
  wolffia explain --map single -- true     why each call is made
  wolffia trace --rootfs DIR -- true       where the time goes
  wolffia doctor                           does it work here, and if not, why?

wolffia VERB --help lists the flags of a verb. wolffia explain --topic NAME
explains a mechanism: child, userns, mounts, overlay, net, exe, signals.
`

const flagHelp = `root:
  --rootfs DIR|host     the root: a folder with a throw-away layer on top, or this machine's view (host)
  --lower DIR           a further layer below --rootfs; repeat it, the topmost first
  --upper DIR           keep the changes in DIR, empty at first (overlayfs works in DIR.work beside it)
  --read-only           show --rootfs as it is, read-only
  --bundle DIR          an OCI bundle: DIR/config.json says the rest
ids:
  --map WHAT            auto: own id as root and all sub-ids (default); single: own id as root, nothing else;
                        host: the same ids as outside (an ordinary user's own alone); or INSIDE:OUTSIDE:COUNT[,…]
  --uid-map, --gid-map  INSIDE:OUTSIDE:COUNT in place of what --map says of uids, of gids; repeatable
  -u, --user UID[:GID]  ids of the program, in the container's numbers, no names (default: 0:0)
  --keep-groups         keep the caller's supplementary groups; without it they are dropped
program:
  -e, --env NAME[=VAL]  a variable; NAME alone passes the caller's on
  -w, --workdir DIR     its working directory, an absolute path (default: /)
  --hostname NAME       the container's host name (default: wolffia)
  --cap-add, --cap-drop CAP[,…] or ALL: more or fewer capabilities than Docker's default set
  --ulimit NAME=SOFT[:HARD]   a limit of setrlimit(2), e.g. nofile=1024; repeatable
  --preserve-fds N      pass the file descriptors 3 … 2+N on
mounts:
  -v, --volume SRC:DST[:OPT,…] show a folder or file of this machine; DST is an absolute path. OPT: ro, rw, and
                              as root idmap: files keep their owners on disk and appear under the container's ids
  --tmpfs DST[:OPTIONS]       an empty tmpfs, e.g. /cache:size=64m
  --shm-size SIZE             size of /dev/shm, e.g. 1g (default: 64m)
  --share NS[,…]              don't make this namespace new: net, pid, ipc, uts, cgroup
limits (in force and read back from the kernel, or nothing starts):
  --memory SIZE               memory.max, e.g. 64m; an OOM kill is told, and exits with 137
  --memory-swap SIZE|max      memory and swap together; the same as --memory allows no swap
  --memory-high, --memory-low, --memory-min SIZE   slow down above; protect from reclaim below
  --oom-group                 an OOM kill ends every process of the container
  --cpus N                    so many CPUs' time, e.g. 0.5
  --cpu-weight N              share of busy CPUs, 1 to 10000 (the kernel's default: 100)
  --cpuset-cpus, --cpuset-mems LIST   these CPUs, these memory nodes, e.g. 0-3,7
  --pids-limit N              so many processes and threads
  --cgroup-conf FILE=VALUE    any other file of cgroup v2, e.g. io.max="8:0 rbps=1048576"; repeatable
  --limits require|try        try: start also without, with a warning
  --cgroup-parent PATH        make the container's cgroup in this one
  --cgroup-manager auto|direct|systemd   who makes it
  --cgroup ro|rw              rw: the container may make cgroups below its own (cgroup v2)
`

// extraFlags are those that not every verb has.
func extraFlags(verb string) string {
	text := "other:\n"
	if verb != "explain" {
		text += "  --result FILE|FD      write what ran and how it ended as JSON\n"
	}
	if verb != "run" {
		text += jsonHelp(verb)
	}
	if verb == "explain" {
		text += "  --facts FILE          plan for the machine whose facts are in FILE\n" +
			"  --facts-save FILE     write what probing found here; CMD may be left out\n" +
			"  --topic NAME          explain a mechanism: " + strings.Join(topicNames(), ", ") + "\n" +
			"  --mechanism NAME      with --topic userns: the calls that open a user namespace as an fd; NAME is one of\n" +
			"                        " + strings.Join(userns.ExplainNames(), ", ") + "\n"
	}
	return text
}

func jsonHelp(verb string) string {
	if verb == "trace" {
		return "  --json                print JSON\n  --output FILE|FD      write the table, or the JSON, there; without it stdout, behind what the program prints\n"
	}
	return "  --json                print JSON\n"
}

func examples(verb string) string {
	switch verb {
	case "run":
		return `examples:
  wolffia run -- id
  wolffia run --rootfs DIR -v "$PWD:/work" -w /work -- make
  wolffia run --map single --rootfs DIR --read-only -- /bin/true
  wolffia run --result result.json -- false
exit: the program's own code; 128+N if signal N ended it; 127 not found, 126 not executable,
      125 the launcher failed (--result tells it from a program that exits 125).
`
	case "explain":
		return `examples:
  wolffia explain -- true
  wolffia explain --json --rootfs DIR -- sh | jq -r '.child[].name'
  wolffia explain --facts-save here.json && wolffia explain --facts here.json -- true
  wolffia explain --topic userns --mechanism vm
`
	}
	return `examples:
  wolffia trace -- true
  wolffia trace --json --output 3 --rootfs DIR -- make 3>trace.json
  wolffia trace --json --rootfs DIR -- true | jq '.steps | sort_by(-.took_ns) | .[:10]'
`
}

func verbHelp(verb string) int {
	fmt.Printf("usage: wolffia %s [flags] [--] CMD [ARG…]\n\nFlags end at -- or at the first word that isn't one; the rest belongs to CMD.\n\n%s%s\n%s", verb, flagHelp, extraFlags(verb), examples(verb))
	return 0
}

// help is `wolffia help [VERB]`. Without a verb at all it is an error to stderr.
func help(args []string, missing bool) int {
	var w io.Writer = os.Stdout
	code := 0
	if missing {
		w, code = os.Stderr, 125
	}
	if len(args) > 0 {
		switch args[0] {
		case "run", "explain", "trace":
			return verbHelp(args[0])
		case "doctor":
			fmt.Print(doctorHelp())
			return 0
		case "help", "version":
		default:
			return report(0, noVerb(args[0]))
		}
	}
	fmt.Fprint(w, mainHelp)
	return code
}
