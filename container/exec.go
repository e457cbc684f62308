package container

import (
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// DefaultPath is searched when the environment has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (c *compiler) hostnameSteps() nsexec.Program {
	if c.spec.Hostname == "" {
		return nil
	}
	return nsexec.Program{nsexec.Sethostname(c.spec.Hostname).Named("hostname")}
}

// execSteps search the program as execvp(3) does: one execve for each folder
// of PATH. The first that succeeds never returns, so no branch is needed.
func (c *compiler) execSteps() nsexec.Program {
	p := nsexec.Program{
		nsexec.CloseRange(uint32(c.lifelineFD()), ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close the rest at execve").
			Because("nothing but stdin, stdout, stderr and what was asked for is open in the container"),
		nsexec.UnblockSignals().Named("unblock signals").
			Because("they were blocked when this child was made; every handler is back to its default (CLONE_CLEAR_SIGHAND)"),
	}
	proc := c.spec.Process
	paths := candidates(proc.Args[0], proc.Env)
	for _, path := range paths {
		p = append(p, nsexec.Openat2(nsexec.AtCWD(), path, unix.O_PATH, unix.RESOLVE_NO_MAGICLINKS).Named("look at ", path).
			Allow("then it isn't the one", unix.ENOENT, unix.EACCES, unix.ENOTDIR).
			Because("a link to /proc/self/exe is the launcher's own binary (CVE-2019-5736)"))
	}
	p = append(p, c.limitSteps()...) // after the last open: the program's limit of files may be lower than ours
	for _, path := range paths {
		p = append(p, nsexec.Execve(path, proc.Args, proc.Env).Named("execute ", path).
			Allow("the next folder of PATH is tried, as execvp(3) does", unix.ENOENT, unix.EACCES, unix.ENOTDIR).
			Because("from here on the container's own program runs, in memory of its own"))
	}
	return p
}

// candidates are the paths that execvp(3) would try.
func candidates(program string, env []string) []string {
	if strings.Contains(program, "/") {
		return []string{program}
	}
	path := DefaultPath
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	var list []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		list = append(list, strings.TrimSuffix(dir, "/")+"/"+program)
	}
	return list
}
