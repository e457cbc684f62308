package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
)

// keyring joins a new session keyring, as each container does (keyrings(7)).
func (p *prober) keyring() {
	p.Keyring = p.do(child{steps: nsexec.Program{nsexec.JoinSessionKeyring().Named("new session keyring")}})
}

// timens starts cat(1) in a new time namespace. Which one it is in itself, and
// which one its children will be in, are two links of its /proc/PID/ns: on some
// kernels execve(2) doesn't take it there, and then it can make no thread
// (copy_process() in kernel/fork.c). execve releases our memory before it changes
// namespaces, so cat has to answer first.
func (p *prober) timens() {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		p.Timens.Attempt = failed(err)
		return
	}
	ours, theirs := ends[0], ends[1]
	defer unix.Close(ours)
	c := child{flags: unix.CLONE_NEWUSER, fds: map[string]uint64{"socket": uint64(theirs)}, steps: nsexec.Program{
		nsexec.Unshare(unix.CLONE_NEWTIME).Named("make a time namespace"),
		nsexec.Dup3(nsexec.Int(lentFD), nsexec.Int(0), 0).Named("stdin"),
		nsexec.Dup3(nsexec.Int(lentFD), nsexec.Int(1), 0).Named("stdout"),
		nsexec.UnblockSignals().Named("unblock signals"),
		nsexec.Execve(find("cat"), []string{"cat"}, nil).Named("execute cat"),
	}}
	p.Timens.Attempt = p.doWith(c, func(pid int) {
		if echoes(ours) {
			own, err1 := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/time")
			next, err2 := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/time_for_children")
			p.Timens.Inside = err1 == nil && err2 == nil && own == next
		}
		unix.Shutdown(ours, unix.SHUT_WR) // the end of cat's input, and so of cat
	})
	unix.Close(theirs)
}

// echoes sends a byte and waits for it to come back.
func echoes(fd int) bool {
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	var back [1]byte
	if _, err := unix.Write(fd, []byte{'x'}); err != nil {
		return false
	}
	n, err := unix.Read(fd, back[:])
	return err == nil && n == 1
}

// limits reads those that a start meets. RLIMIT_NOFILE is the one before the Go
// runtime raised it.
func (p *prober) limits() {
	for _, l := range []struct {
		name   string
		number int
	}{{"nofile", unix.RLIMIT_NOFILE}, {"nproc", unix.RLIMIT_NPROC}, {"core", unix.RLIMIT_CORE}, {"memlock", unix.RLIMIT_MEMLOCK}} {
		var r unix.Rlimit
		if unix.Getrlimit(l.number, &r) != nil {
			continue
		}
		if soft, hard, err := nsexec.OriginalNofile(); l.number == unix.RLIMIT_NOFILE && err == nil {
			r.Cur, r.Max = soft, hard
		}
		p.Limits = append(p.Limits, Limit{l.name, r.Cur, r.Max})
	}
}

// hidePID is the option of the proc at /proc (proc(5)): the last mount there.
func hidePID() string {
	value := ""
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		at, super, ok := strings.Cut(line, " - ")
		if f := strings.Fields(at); !ok || len(f) < 5 || f[4] != "/proc" {
			continue
		}
		value = ""
		for option := range strings.SplitSeq(strings.TrimSpace(super), ",") {
			if v, is := strings.CutPrefix(option, "hidepid="); is {
				value = v
			}
		}
	}
	return map[string]string{"noaccess": "1", "invisible": "2", "ptraceable": "4", "off": "", "0": ""}[value] + onlyDigits(value)
}

// onlyDigits is a number as it is; kernels since 5.8 write names.
func onlyDigits(s string) string {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return s
	}
	return ""
}

func home() string {
	if dir := os.Getenv("HOME"); filepath.IsAbs(dir) && unix.Access(dir, unix.F_OK) == nil {
		return dir
	}
	return "/"
}

// fsType is the file system that a folder lies on, "" if it can't be told.
func fsType(dir string) string {
	if found, err := mount.Filesystems(dir); err == nil {
		return found[0].Type
	}
	return ""
}

// searchDirs are PATH's absolute folders, and those of set-up tools.
func searchDirs() []string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin") {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// read gives a file's text without its newline, "" if it can't be read.
func read(path string) string {
	data, _ := os.ReadFile(path)
	return strings.TrimSpace(string(data))
}
