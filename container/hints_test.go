package container

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// hintCase is a step that failed on a machine, and what a person is told.
type hintCase struct {
	name   string
	plan   *Plan
	lane   string
	step   string // how the step's name begins
	errno  unix.Errno
	policy Policy
	ran    map[string]int64 // what steps of the child lane returned, by name
	want   []string         // in this order
	not    []string
}

// policies of machines
var (
	apparmor    = Policy{AppArmorUserns: "1", Exe: "/usr/bin/wolffia"}
	noClone     = Policy{UsernsClone: "0"}
	filteredBy  = Policy{Seccomp: 2}
	noUserns    = Policy{NamespaceLimits: []NamespaceLimit{{"user.max_user_namespaces", 0}, {"user.max_net_namespaces", 100}}}
	someUserns  = Policy{NamespaceLimits: []NamespaceLimit{{"user.max_user_namespaces", 100}, {"user.max_net_namespaces", 50}}}
	pidsUsedUp  = Policy{PidsMax: "40", PidsCgroup: "/sys/fs/cgroup/user.slice", Nproc: 1000}
	nprocUsedUp = Policy{Nproc: 12}
)

// hintCases has at least one case for each entry of the table; the sources are
// reports of people who were told less.
func hintCases(t testing.TB) []hintCase {
	user := planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t)
	single := planCaseOf("", userFacts(), folderRoot, userns.Single).compile(t)
	root := planCaseOf("", rootFacts(), folderRoot, userns.Auto).compile(t)
	mapped := planCaseOf("", rootFacts(), folderRoot, userns.Auto).with(idmapped).compile(t)
	old := planCaseOf("", oldKernel("6.1.0", true), folderRoot, userns.Auto).compile(t)
	volume := planCaseOf("", userFacts(), folderRoot, userns.Auto).with(volumes).compile(t)
	hostView := planCaseOf("", userFacts(), hostRoot, userns.Auto).compile(t)
	readOnly := planCaseOf("", userFacts(), Root{Kind: RootReadOnly, Path: "/images/base"}, userns.Auto).compile(t)
	upper := planCaseOf("", userFacts(), Root{Kind: RootOverlay, Path: "/images/app", Lower: []string{"/images/base"}, Upper: "/home/user/up"}, userns.Auto).compile(t)
	limited := planCaseOf("", userFacts(), folderRoot, userns.Single).with(limits(t, "v2-delegated")).compile(t)
	limitedV1 := planCaseOf("", userFacts(), folderRoot, userns.Single).with(limits(t, "v1-hybrid")).compile(t)
	noHelper := planCaseOf("", userFacts(), folderRoot, userns.Auto)
	noSUID := noHelper.compile(t)
	noHelper.facts.IDs.NewUIDMap.Mode = 0o755
	group := planCaseOf("", userFacts(), folderRoot, userns.Auto).with(func(c *planCase) { c.as(1000, 1000) }).compile(t)

	const host, child = nsexec.LaneHost, nsexec.LaneChild
	return []hintCase{
		// The child can't be made.
		{"rootlesskit#421", user, host, "make the child", unix.EPERM, apparmor, nil, []string{"AppArmor", "/usr/bin/wolffia", "userns,"}, nil},
		{"no unprivileged_userns_clone", user, host, "make the child", unix.EPERM, noClone, nil, []string{"kernel.unprivileged_userns_clone=1"}, []string{"AppArmor"}},
		{"seccomp", user, host, "make the child", unix.EPERM, filteredBy, nil, []string{"seccomp filter", "clone3"}, nil},
		{"no id", user, host, "make the child", unix.EPERM, Policy{OwnUIDUnmapped: true}, nil, []string{"no id in its own user namespace"}, nil},
		{"bubblewrap#139", user, host, "make the child", unix.EPERM, Policy{UsernsClone: "0", AppArmorUserns: "1", Seccomp: 2, Exe: "/w"}, nil,
			[]string{"kernel.unprivileged_userns_clone=1", "AppArmor", "seccomp filter"}, nil},
		{"none to be seen", user, host, "make the child", unix.EPERM, Policy{}, nil, []string{"chroot", "LSM", "user_namespaces(7)"}, []string{"AppArmor"}},
		{"an LSM", user, host, "make the child", unix.EACCES, apparmor, nil, []string{"AppArmor"}, nil},
		{"bubblewrap#371", user, host, "make the child", unix.ENOSPC, noUserns, nil, []string{"user.max_user_namespaces is 0", "sysctl user.max_user_namespaces="}, []string{"net_namespaces"}},
		{"bubblewrap#764", user, host, "make the child", unix.ENOSPC, someUserns, nil, []string{"user.max_user_namespaces=100", "32"}, nil},
		{"nested too deep", user, host, "make the child", unix.EUSERS, someUserns, nil, []string{"nest 32 deep"}, nil},
		{"runc#3666", user, host, "make the child", unix.EAGAIN, pidsUsedUp, nil, []string{"pids.max is 40", "/sys/fs/cgroup/user.slice"}, []string{"RLIMIT_NPROC"}},
		{"RLIMIT_NPROC", user, host, "make the child", unix.EAGAIN, nprocUsedUp, nil, []string{"RLIMIT_NPROC is 12", "ulimit -u"}, nil},
		{"no process for the keeper", user, host, "keeper", unix.EAGAIN, nprocUsedUp, nil, []string{"RLIMIT_NPROC is 12"}, nil},
		{"no fd for the keeper", user, host, "keeper", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, nil},
		{"pid namespace of the dead", user, host, "make the child", unix.ENOMEM, nprocUsedUp, nil, []string{"process limit"}, nil},
		{"kernel without one", user, host, "make the child", unix.EINVAL, Policy{}, nil, []string{"lacks one of the namespaces", "--share"}, nil},
		{"no clone3", user, host, "make the child", unix.ENOSYS, Policy{}, nil, []string{"Linux 5.3"}, nil},
		{"no clone3 in a sandbox", user, host, "make the child", unix.ENOSYS, filteredBy, nil, []string{"seccomp filter"}, []string{"Linux 5.3"}},
		{"fds of the clone", user, host, "make the child", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, nil},
		{"fds of the lifeline", user, host, "lifeline", unix.EMFILE, Policy{}, nil, []string{"RLIMIT_NOFILE"}, nil},

		// The maps can't be written.
		{"youki#3298", single, host, "write the uid map", unix.EPERM, apparmor, nil, []string{"AppArmor let the namespace be made", "/usr/bin/wolffia"}, nil},
		{"a map refused", single, host, "write the uid map", unix.EPERM, Policy{}, nil, []string{"user_namespaces(7)", "mapped nowhere"}, []string{"AppArmor"}},
		{"hidepid=1", single, host, "write the uid map", unix.EACCES, Policy{}, nil, []string{"dumpable", "hidepid"}, nil},
		{"hidepid=2", single, host, "deny setgroups", unix.ENOENT, Policy{}, nil, []string{"hidepid=2"}, nil},
		{"fds of a write", single, host, "write the gid map", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, nil},
		{"helper processes", user, host, "newuidmap", unix.EAGAIN, nprocUsedUp, nil, []string{"RLIMIT_NPROC is 12"}, nil},
		{"helper fds", user, host, "newgidmap", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, nil},
		{"a helper that hangs", noSUID, host, "wait for the helpers", unix.ETIMEDOUT, Policy{}, nil, []string{"directory service", "--map single"}, nil},
		{"helper without its bit", noSUID, host, "wait for the helpers", 0, Policy{}, nil, []string{"/usr/bin/newuidmap", "set-uid"}, []string{"newgidmap"}},
		{"helper refuses", user, host, "wait for the helpers", 0, Policy{}, nil, []string{"/etc/subuid", "--map single"}, nil},
		{"no idmap", root, host, "idmap the root", unix.EINVAL, Policy{}, nil, []string{"/images/base", "--map host", "ext4"}, nil},
		{"idmapped already", root, host, "idmap the root", unix.EPERM, Policy{}, nil, []string{"already is", "--map host"}, nil},
		{"containers/crun#1382", mapped, host, "idmap /data", unix.EINVAL, Policy{}, nil, []string{"/srv/data", "/srv/data/nfs is mounted below", "nfs4 doesn't allow", "plainly"}, nil},
		{"opencontainers/runc#3717", mapped, host, "idmap /a", unix.EPERM, Policy{}, nil, []string{"/srv/a", "CAP_SYS_ADMIN", "ext4", "chown"}, nil},
		{"a mount of another namespace", mapped, host, "clone the mount of /data", unix.EINVAL, Policy{}, nil, []string{"mount namespace", "plainly"}, []string{"root folder"}},
		{"root can't be cloned", root, host, "clone the mount of the root", unix.EINVAL, Policy{}, nil, []string{"--map host"}, nil},
		{"fds of the root", root, host, "clone the mount of the root", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, []string{"--map host"}},

		// Mounts.
		{"podman#20453", user, child, "mount proc", unix.EPERM, Policy{}, nil, []string{"mount too revealing", "unmask=/proc/*", "second proc", "--share pid"}, nil},
		{"podman#20453 when it is made", user, child, "create the proc", unix.EPERM, Policy{}, nil, []string{"three ways out"}, nil},
		{"sysfs", user, child, "mount sysfs", unix.EPERM, Policy{}, nil, []string{"--share net"}, nil},
		{"overlay before 5.11", user, child, "create the overlay", unix.EPERM, Policy{}, nil, []string{"Linux 5.11", "6.18.0", "--read-only"}, nil},
		{"no overlay of a locked mount", user, child, "create the overlay", unix.EINVAL, Policy{}, nil, []string{"mounted below it"}, []string{"upper layer"}},
		{"coreos/fedora-coreos-tracker#1749", upper, child, "create the overlay", unix.EINVAL, Policy{}, nil, []string{"this upper layer", "another overlay", "ext4"}, nil},
		{"containers/storage#840", upper, child, "overlay upperdir", unix.EINVAL, Policy{}, nil, []string{"work/incompat/volatile"}, nil},
		{"containers/fuse-overlayfs#364", upper, child, "create the overlay", unix.ELOOP, Policy{}, nil, []string{"/home/user/up", "/images/app", "/images/base"}, nil},
		{"upper in use", upper, child, "create the overlay", unix.EBUSY, Policy{}, nil, []string{"another overlay uses"}, nil},
		{"work folder", upper, child, "overlay workdir", unix.EINVAL, Policy{}, nil, []string{"upper layer"}, nil},
		{"a layer", user, child, "overlay lowerdir+", unix.EINVAL, Policy{}, nil, []string{"layers"}, nil},
		{"the mount of a layer", old, child, "mount the overlay", unix.EINVAL, Policy{}, nil, []string{"layers"}, nil},
		{"no overlayfs", user, child, "open a new overlay", unix.ENODEV, Policy{}, nil, []string{"modprobe overlay"}, nil},
		{"a layer of somebody else's", user, child, "open the layer", unix.EACCES, Policy{}, nil, []string{"can't enter"}, nil},
		{"fsopen", user, child, "open a new proc", unix.EPERM, filteredBy, nil, []string{"seccomp"}, nil},
		{"fsopen outside", user, child, "open a new proc", unix.EPERM, Policy{}, nil, []string{"CAP_SYS_ADMIN"}, nil},
		{"fsopen of old", user, child, "open a new proc", unix.ENOSYS, Policy{}, nil, []string{"Linux 5.2"}, nil},
		{"runc#3710", volume, child, "attributes of", unix.EPERM, Policy{}, nil, []string{"locked", "nosuid"}, nil},
		{"attribute of a new kernel", volume, child, "attributes of", unix.EINVAL, Policy{}, nil, []string{"5.14"}, nil},
		{"a bind without what is below", volume, child, "clone the mount at", unix.EINVAL, Policy{}, nil, []string{"rbind"}, nil},
		{"no mount point in a read-only root", readOnly, child, "mount point proc", unix.EROFS, Policy{}, nil, []string{"beforehand"}, nil},
		{"no mount point in somebody's root", readOnly, child, "mount point proc", unix.EACCES, Policy{}, nil, []string{"beforehand"}, nil},
		{"no mount point in an odd root", readOnly, child, "mount point proc", unix.EPERM, Policy{}, nil, []string{"beforehand"}, nil},
		{"a link into /proc", volume, child, "find /", unix.ELOOP, Policy{}, nil, []string{"plain folder"}, nil},
		{"a file in the way", volume, child, "find /", unix.ENOTDIR, Policy{}, nil, []string{"is a file where a folder is needed"}, nil},
		{"a link to nowhere", volume, child, "find /", unix.ENOENT, Policy{}, nil, []string{"leads nowhere"}, nil},
		{"a closed folder", volume, child, "find /", unix.EACCES, Policy{}, nil, []string{"can't be entered"}, nil},
		{"initramfs", user, child, "make it the root", unix.EINVAL, Policy{}, nil, []string{"initramfs", "switch_root(8)"}, nil},
		{"our bug", user, child, "prove that the old root is gone", unix.EXDEV, Policy{}, nil, []string{"bug", "wolffia explain"}, nil},

		// The network and the ids.
		{"net namespaces", user, child, "new network namespace", unix.ENOSPC, someUserns, nil, []string{"user.max_net_namespaces=50"}, nil},
		{"cgroup namespaces", limited, child, "new cgroup namespace", unix.ENOSPC, someUserns, nil, []string{"user.max_net_namespaces=50"}, nil},
		{"a cgroup that is there", limited, host, "make the cgroup", unix.EEXIST, Policy{}, nil, []string{"choose another name"}, nil},
		{"no such limit", limited, host, "limit memory.max", unix.ENOENT, Policy{}, nil, []string{"this kernel has no such limit"}, nil},
		{"the child in v1", limitedV1, child, "open the cgroup's tasks", unix.EACCES, Policy{}, nil, []string{"isn't ours to write"}, nil},
		{"an empty cpuset", limitedV1, child, "enter the cgroup", unix.ENOSPC, Policy{}, nil, []string{"--cpuset-mems"}, nil},
		{"no net namespace", user, child, "new network namespace", unix.EPERM, filteredBy, nil, []string{"unshare"}, nil},
		{"too many processes of that id", group, child, "become uid", unix.EAGAIN, nprocUsedUp, nil, []string{"RLIMIT_NPROC"}, nil},

		// The working directory and the program.
		{"CVE-2024-21626", volume, child, "find the working directory", unix.ELOOP, Policy{}, nil, []string{"CVE-2024-21626"}, nil},
		{"no working directory", volume, child, "find the working directory", unix.ENOENT, Policy{}, nil, []string{"-w"}, nil},
		{"working directory is a file", volume, child, "find the working directory", unix.ENOTDIR, Policy{}, nil, []string{"no folder"}, nil},
		{"closed working directory", volume, child, "enter the working directory", unix.EACCES, Policy{}, nil, []string{"--user"}, nil},
		{"CVE-2019-5736", user, child, "look at", unix.ELOOP, Policy{}, nil, []string{"CVE-2019-5736"}, nil},
		{"no program", user, child, "execute /bin/sh", unix.ENOENT, Policy{}, nil, []string{"no such program", `"sh"`, "/usr/local/sbin/sh", "/bin/sh"}, nil},
		{"no interpreter", user, child, "execute /bin/sh", unix.ENOENT, Policy{}, map[string]int64{"look at /usr/bin/sh": 5, "look at /bin/sh": -int64(unix.ENOENT)},
			[]string{"/usr/bin/sh is there", "#!", "ELF interpreter"}, []string{"no such program"}},
		{"not executable", user, child, "execute /bin/sh", unix.EACCES, Policy{}, nil, []string{"x bit", "noexec"}, nil},
		{"another machine's program", user, child, "execute /bin/sh", unix.ENOEXEC, Policy{}, nil, []string{"this machine", "#!"}, nil},
		{"arguments", user, child, "execute /bin/sh", unix.E2BIG, Policy{}, nil, []string{"too long"}, nil},

		// Whatever step it is.
		{"fds", user, child, "open the layer", unix.EMFILE, Policy{}, nil, []string{"ulimit -n"}, nil},
		{"files of the machine", user, child, "open the layer", unix.ENFILE, Policy{}, nil, []string{"file-max"}, nil},
		{"too many mounts", user, child, "attach the new root", unix.ENOSPC, Policy{}, nil, []string{"fs.mount-max"}, []string{"namespaces nest"}},
		{"a file on a folder", readOnly, child, "attach /proc", unix.EINVAL, Policy{}, nil, []string{"a file can't be mounted on a folder"}, nil},
		{"a folder on a file", readOnly, child, "attach /proc", unix.ENOTDIR, Policy{}, nil, []string{"nor a folder on a file"}, nil},
		{"a size that is none", readOnly, child, "tmpfs option size=65536k", unix.EINVAL, Policy{}, nil, []string{"size=64m", "tmpfs(5)"}, nil},
		{"a full disk", readOnly, child, "mount point proc", unix.ENOSPC, noUserns, nil, []string{"df -i", "quota"}, []string{"user.max"}},
		{"a full tmpfs", hostView, child, "folder /tmp", unix.ENOSPC, noUserns, nil, []string{"no room"}, []string{"user.max"}},
		{"a link on a full tmpfs", hostView, child, "link /bin", unix.ENOSPC, noUserns, nil, []string{"no room"}, []string{"user.max"}},
		{"Ubuntu 23.10 and later", user, child, "stop propagation", unix.EPERM, apparmor, nil, []string{"AppArmor let the namespace be made", "/usr/bin/wolffia"}, nil},
		{"Ubuntu, mediated", user, child, "stop propagation", unix.EACCES, apparmor, nil, []string{"AppArmor"}, nil},
		{"two causes", user, child, "stop propagation", unix.EPERM, Policy{AppArmorUserns: "1", Seccomp: 2}, nil, []string{"AppArmor", "seccomp"}, nil},
		{"any call in a sandbox", user, child, "new session keyring", unix.EPERM, filteredBy, nil, []string{"seccomp"}, nil},
		{"any call that is missing", user, child, "stop propagation", unix.ENOSYS, Policy{}, nil, []string{"5.12"}, nil},
		{"setsid", user, child, "new session", unix.EPERM, Policy{}, nil, nil, nil},
	}
}

// failed makes the error of a case, as nsexec would.
func (c hintCase) failed(t testing.TB) *hinted {
	t.Helper()
	report := &nsexec.Report{Host: make([]nsexec.Result, len(c.plan.Host)), Child: make([]nsexec.Result, len(c.plan.Child))}
	for i, s := range c.plan.Child {
		if ret, ok := c.ran[s.Name]; ok {
			report.Child[i] = nsexec.Result{Started: true, Ran: true, Ret: ret}
		}
	}
	index := slices.IndexFunc(c.plan.Child, func(s nsexec.Step) bool { return strings.HasPrefix(s.Name, c.step) })
	total := len(c.plan.Child)
	if c.lane == nsexec.LaneHost {
		index = slices.IndexFunc(c.plan.Host, func(h nsexec.HostStep) bool { return h.Name == c.step })
		total = len(c.plan.Host)
	}
	if index < 0 {
		t.Fatalf("%s: the plan has no step %q", c.name, c.step)
	}
	step := stepError(c.plan, c.lane, index, c.errno)
	step.Total = total
	return &hinted{step: step, plan: c.plan, report: report, policy: func() Policy { return c.policy }}
}

// stepError is what nsexec reports of a step that failed.
func stepError(p *Plan, lane string, i int, errno unix.Errno) *nsexec.StepError {
	e := &nsexec.StepError{Lane: lane, Index: i, Errno: errno, Ret: -int64(errno)}
	if lane == nsexec.LaneHost {
		e.Name, e.Call = p.Host[i].Name, p.Host[i].String()
		if errno == 0 {
			e.Cause = &nsexec.ProgramError{Path: "/usr/bin/newuidmap", Status: nsexec.ExitStatus{Code: 1}, Stderr: "write to uid_map failed"}
		}
		return e
	}
	e.Name, e.Call = p.Child[i].Name, p.Child[i].String()
	return e
}

func TestHints(t *testing.T) {
	for _, c := range hintCases(t) {
		t.Run(c.name, func(t *testing.T) {
			h := c.failed(t)
			h.step.Hint = h.find(hintTable())
			rest := h.step.Hint
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is missing, or not in this place, in:\n%s", want, h.step.Hint)
				}
				rest = after
			}
			for _, not := range c.not {
				if strings.Contains(h.step.Hint, not) {
					t.Errorf("%q is in:\n%s", not, h.step.Hint)
				}
			}
			if len(c.want) == 0 && h.step.Hint != "" {
				t.Errorf("nothing is known, and yet: %s", h.step.Hint)
			}
			checkErrorText(t, h.step)
		})
	}
}

// A hint comes below the errno and never in its place.
func checkErrorText(t *testing.T, e *nsexec.StepError) {
	t.Helper()
	first, _, _ := strings.Cut(e.Error(), "\n")
	if e.Errno != 0 && (!strings.Contains(first, "("+nsexec.ErrnoName(e.Errno)+")") || !errors.Is(e, e.Errno)) {
		t.Errorf("the errno isn't in the first line of:\n%v", e)
	}
	if e.Hint != "" && !strings.Contains(e.Error(), "\n  ") {
		t.Errorf("the hint isn't in:\n%v", e)
	}
	// bubblewrap#371: "No space left on device", and people looked at their disks.
	if text := strings.ReplaceAll(e.Hint, "not a disk", ""); e.Errno == unix.ENOSPC && strings.Contains(e.Name, "namespace") && strings.Contains(text, "disk") {
		t.Errorf("a disk is blamed: %v", e)
	}
}

// Every entry of the table is for a step that plans have, and is the first to
// match for one case at least: none is dead.
func TestEveryHintIsUsed(t *testing.T) {
	table := hintTable()
	used := make([]bool, len(table))
	for _, c := range hintCases(t) {
		h := c.failed(t)
		for i := range table {
			if h.find(table[i:i+1]) != "" {
				used[i] = true
				break
			}
		}
	}
	for i, entry := range table {
		if !used[i] {
			t.Errorf("no case for entry %d: call %v op %q name %q errno %s", i+1, entry.call, entry.op, entry.name, nsexec.ErrnoName(entry.errno))
		}
	}
}

// possible are the errors that the kernel gives for a call of a plan.
func possible(call nsexec.Sysno) []unix.Errno {
	always := []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EINVAL, unix.ENOMEM}
	paths := append(always, unix.ENOENT, unix.EACCES, unix.ELOOP, unix.ENOTDIR, unix.EMFILE, unix.ENFILE, unix.ENAMETOOLONG, unix.EIO)
	switch call {
	case unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_SYMLINKAT:
		return append(paths, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EOVERFLOW)
	case unix.SYS_OPENAT, unix.SYS_OPENAT2:
		return append(paths, unix.EXDEV, unix.EAGAIN, unix.ENXIO)
	case unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR:
		return append(paths, unix.ENODEV, unix.EBUSY, unix.ENOSPC, unix.ESTALE, unix.EROFS)
	case unix.SYS_EXECVE:
		return append(paths, unix.ENOEXEC, unix.E2BIG, unix.ETXTBSY, unix.EISDIR, unix.ELIBBAD, unix.EAGAIN)
	case unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_UNSHARE:
		return append(always, unix.EAGAIN, unix.ENOSPC, unix.EUSERS)
	}
	return append(always, unix.EMFILE, unix.EAGAIN, unix.EBUSY)
}

// Whatever step of whatever plan fails with whatever error: the errno stands
// in the first line, and nothing panics, also on a machine that tells nothing.
func TestHintsOfEveryStep(t *testing.T) {
	host := []unix.Errno{0, unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EAGAIN, unix.ENOMEM, unix.EINVAL, unix.ENOSYS, unix.ENOENT, unix.EMFILE, unix.ENFILE, unix.ESRCH, unix.EPIPE}
	table := hintTable()
	for _, c := range moreCases(t) {
		plan := c.compile(t)
		report := &nsexec.Report{Host: make([]nsexec.Result, len(plan.Host)), Child: make([]nsexec.Result, len(plan.Child))}
		check := func(e *nsexec.StepError) {
			for _, policy := range []Policy{{}, noUserns, filteredBy} {
				h := &hinted{step: e, plan: plan, report: report, policy: func() Policy { return policy }}
				e.Hint = h.find(table)
				checkErrorText(t, e)
			}
		}
		for i := range plan.Host {
			for _, errno := range host {
				check(stepError(plan, nsexec.LaneHost, i, errno))
			}
		}
		seen := map[string]bool{}
		for i, s := range plan.Child {
			if seen[s.Name] {
				continue
			}
			seen[s.Name] = true
			for _, errno := range possible(s.Call) {
				check(stepError(plan, nsexec.LaneChild, i, errno))
			}
		}
	}
}

// The exit code is that of a shell: 127 not found, 126 not executable, 125 ours.
func TestExitCodes(t *testing.T) {
	plan := planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t)
	exec, first := len(plan.Child)-1, 0
	for _, test := range []struct {
		step *nsexec.StepError
		code int
	}{
		{stepError(plan, nsexec.LaneChild, exec, unix.ENOENT), 127},
		{stepError(plan, nsexec.LaneChild, exec, unix.ENOTDIR), 127},
		{stepError(plan, nsexec.LaneChild, exec, unix.EACCES), 126},
		{stepError(plan, nsexec.LaneChild, exec, unix.ENOEXEC), 126},
		{stepError(plan, nsexec.LaneChild, exec, unix.EMFILE), 125},
		{stepError(plan, nsexec.LaneChild, first, unix.ENOENT), 125},
		{stepError(plan, nsexec.LaneHost, first, unix.ENOENT), 125},
	} {
		if got := exitCode(plan, fmt.Errorf("start: %w", test.step)); got != test.code {
			t.Errorf("exit code %d of %v", got, test.step)
		}
	}
	if got := exitCode(plan, errors.New("no step")); got != 125 {
		t.Error(got)
	}
}

// Hint reads this machine's policy only when an entry asks for it, and gives ""
// when there is nothing to add.
func TestHintHasNothingToAdd(t *testing.T) {
	plan := planCaseOf("", userFacts(), folderRoot, userns.Auto).compile(t)
	if hint := Hint(stepError(plan, nsexec.LaneChild, 0, unix.EIO), plan, &nsexec.Report{}); hint != "" {
		t.Error(hint)
	}
	if p := ProbePolicy(); p.Exe == "" || p.Nproc == 0 {
		t.Errorf("%+v", p)
	}
}
