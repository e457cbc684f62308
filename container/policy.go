package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Policy is what this machine allows: read after something failed, to tell why.
type Policy struct {
	UsernsClone     string // kernel.unprivileged_userns_clone, "" where the kernel has no such switch
	AppArmorUserns  string // kernel.apparmor_restrict_unprivileged_userns, likewise
	Seccomp         int    // of this process: 2 is a filter
	OwnUIDUnmapped  bool
	NamespaceLimits []NamespaceLimit
	Nproc           uint64 // RLIMIT_NPROC, soft
	PidsMax         string // the cgroup's pids.max, where it is the limit reached
	PidsCgroup      string
	Exe             string // our own binary
}

// NamespaceLimit is one of /proc/sys/user/max_*_namespaces.
type NamespaceLimit struct {
	Sysctl string
	Max    int
}

// ProbePolicy reads the switches and limits.
func ProbePolicy() Policy {
	p := Policy{
		UsernsClone:    sysctl("kernel/unprivileged_userns_clone"),
		AppArmorUserns: sysctl("kernel/apparmor_restrict_unprivileged_userns"),
		OwnUIDUnmapped: os.Getuid() == 65534,
	}
	for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"} {
		if n, err := strconv.Atoi(sysctl("user/max_" + kind + "_namespaces")); err == nil {
			p.NamespaceLimits = append(p.NamespaceLimits, NamespaceLimit{"user.max_" + kind + "_namespaces", n})
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			p.Seccomp, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	var nproc unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &nproc) == nil {
		p.Nproc = nproc.Cur
	}
	p.probePids()
	p.Exe = ownBinary()
	return p
}

// ownBinary is the path of our own binary. A sealed copy of it, in a memfd, has
// none, and was given the original's as its first argument.
func ownBinary() string {
	path, _ := os.Readlink("/proc/self/exe")
	if strings.HasPrefix(path, "/memfd:") && filepath.IsAbs(os.Args[0]) {
		return os.Args[0]
	}
	return path
}

func sysctl(name string) string {
	data, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(data))
}

// probePids looks for the group at or above ours whose pids.max is used up, on
// cgroup v2 or v1.
func (p *Policy) probePids() {
	data, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "pids" {
			continue
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"} {
			p.pidsAt(mount, f[2])
		}
	}
}

func (p *Policy) pidsAt(mount, group string) {
	for ; p.PidsMax == ""; group = group[:strings.LastIndexByte(group, '/')] {
		max, err1 := os.ReadFile(mount + group + "/pids.max")
		now, err2 := os.ReadFile(mount + group + "/pids.current")
		limit, err3 := strconv.Atoi(strings.TrimSpace(string(max)))
		used, _ := strconv.Atoi(strings.TrimSpace(string(now)))
		if err1 == nil && err2 == nil && err3 == nil && used >= limit-1 {
			p.PidsMax, p.PidsCgroup = strconv.Itoa(limit), mount+group
		}
		if !strings.Contains(group, "/") || group == "/" {
			return
		}
	}
}
