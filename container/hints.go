package container

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
)

// A hint adds cause and remedy to the errno of a step. It never replaces it.
type hint struct {
	call  nsexec.Sysno // of the child lane; 0 is any
	op    nsexec.HostOp
	name  string // how the step's name begins; "" is any
	errno unix.Errno
	text  func(h *hinted) string
}

// hinted is the step that failed and what is known about the machine.
type hinted struct {
	step   *nsexec.StepError
	plan   *Plan
	report *nsexec.Report
	policy func() Policy // read only when a hint asks for it
}

// Hint is cause and remedy for a step that failed; "" when there is nothing to
// add to the errno.
func Hint(step *nsexec.StepError, plan *Plan, report *nsexec.Report) string {
	h := &hinted{step: step, plan: plan, report: report, policy: ProbePolicy}
	return h.find(hintTable())
}

func (h *hinted) find(table []hint) string {
	for _, t := range table {
		if t.errno != 0 && t.errno != h.step.Errno || !strings.HasPrefix(h.step.Name, t.name) {
			continue
		}
		if h.step.Lane == "host" && h.plan.Host[h.step.Index].Op == t.op ||
			h.step.Lane == "child" && t.op == "" && (t.call == 0 || h.plan.Child[h.step.Index].Call == t.call) {
			if text := t.text(h); text != "" {
				return text
			}
		}
	}
	return ""
}

func say(text string) func(*hinted) string { return func(*hinted) string { return text } }

// hintTable is read from the top; the first match with a text wins.
func hintTable() []hint {
	return []hint{
		{op: nsexec.OpClone, errno: unix.EPERM, text: forbidden},
		{op: nsexec.OpClone, errno: unix.EACCES, text: forbidden},
		{op: nsexec.OpClone, errno: unix.ENOSPC, text: namespaceLimit},
		{op: nsexec.OpClone, errno: unix.EUSERS, text: namespaceLimit},
		{op: nsexec.OpClone, errno: unix.EAGAIN, text: processLimit},
		{op: nsexec.OpExec, errno: unix.EAGAIN, text: processLimit},
		{op: nsexec.OpKeep, errno: unix.EAGAIN, text: processLimit},
		{op: nsexec.OpKeep, errno: unix.EMFILE, text: tooFewFiles},
		{op: nsexec.OpClone, errno: unix.ENOMEM, text: processLimit},
		{op: nsexec.OpClone, errno: unix.EINVAL, text: say("this kernel lacks one of the namespaces, or an outer sandbox refuses it: zgrep _NS= /proc/config.gz; --share NS leaves one out")},
		{op: nsexec.OpClone, errno: unix.ENOSYS, text: seccompOr("clone3(2) came with Linux 5.3")},
		{op: nsexec.OpWrite, errno: unix.EPERM, text: mapRefused},
		{op: nsexec.OpWrite, errno: unix.EACCES, text: say("/proc/PID belongs to root while this process is not dumpable: another part of it changed its credentials, or /proc is mounted with hidepid")},
		{op: nsexec.OpWrite, errno: unix.ENOENT, text: say("the child's folder in /proc can't be seen: is /proc mounted with hidepid=2, or not mounted at all?")},
		{op: nsexec.OpJoin, errno: unix.ETIMEDOUT, text: say("the helper asks the system's user database, and a directory service behind it (/etc/nsswitch.conf) may not answer: try getent passwd; --map single needs no helper")},
		{op: nsexec.OpJoin, text: helperRefused},
		{op: nsexec.OpIDMap, name: "idmap the root", errno: unix.EINVAL, text: noRootIDMap},
		{op: nsexec.OpIDMap, name: "idmap the root", errno: unix.EPERM, text: noRootIDMap},
		{op: nsexec.OpIDMap, text: noIDMap},
		{op: nsexec.OpCgroup, text: cgroupRefused},
		{op: nsexec.OpOpenTree, errno: unix.EMFILE, text: tooFewFiles},
		{op: nsexec.OpOpenTree, name: "clone the mount of the root", text: say("the root folder can't be cloned; --map host works without it")},
		{op: nsexec.OpOpenTree, text: say("the launcher can't clone this mount to idmap it: its mount namespace has to belong to it (open_tree(2)); bind it plainly, without idmap")},

		{name: "mount proc", errno: unix.EPERM, text: tooRevealing},
		{name: "create the proc", errno: unix.EPERM, text: tooRevealing},
		{name: "mount sysfs", errno: unix.EPERM, text: say("a new sysfs needs a fully visible /sys in the parent, and here something covers a part of it (mount_namespaces(7), \"mount too revealing\"): use --share net, which shows the host's /sys read-only")},
		{name: "create the overlay", text: overlayRefused},
		{name: "mount the overlay", text: overlayRefused},
		{name: "overlay lowerdir+", text: overlayRefused},
		{name: "overlay upperdir", text: overlayRefused},
		{name: "overlay workdir", text: overlayRefused},
		{name: "open a new overlay", errno: unix.ENODEV, text: say("this kernel has no overlayfs: load it as root (modprobe overlay), or use --read-only")},
		{name: "open the layer", errno: unix.EACCES, text: say("this user can't enter the folder: chmod or chown it, or name another one")},
		{name: "open a new", errno: unix.EPERM, text: seccompOr("fsopen(2) needs CAP_SYS_ADMIN in the namespace that was just made")},
		{name: "open a new", errno: unix.ENOSYS, text: seccompOr("fsopen(2) came with Linux 5.2")},
		{name: "clone the mount", errno: unix.EINVAL, text: say("something is mounted below the source, and mounts inherited from the host can't be left out (mount_namespaces(7)): bind it with what is below it (rbind)")},
		{name: "attach ", errno: unix.EINVAL, text: say("a file can't be mounted on a folder, nor a folder on a file: for a file name the file in the destination too, e.g. /mnt/afile")},
		{name: "attach ", errno: unix.ENOTDIR, text: say("a file can't be mounted on a folder, nor a folder on a file: for a file name the file in the destination too, e.g. /mnt/afile")},
		{name: "tmpfs option ", errno: unix.EINVAL, text: say("tmpfs doesn't know this option or value: sizes are numbers with k, m, g or %, as in size=64m (tmpfs(5))")},
		{name: "mount point", errno: unix.EROFS, text: missingMountPoint},
		{name: "mount point", errno: unix.EACCES, text: missingMountPoint},
		{name: "mount point", errno: unix.EPERM, text: missingMountPoint},
		{name: "attributes of", errno: unix.EPERM, text: say("the host locked a flag of this mount (nosuid, nodev, noexec or read-only), and a container can't take it away: drop exec, suid, dev or rw from the options")},
		{name: "attributes of", errno: unix.EINVAL, text: say("this kernel doesn't know one of these mount attributes (nosymfollow came with Linux 5.14)")},
		{name: "find the working directory", errno: unix.ELOOP, text: say("the working directory leads through a link of /proc, which could lead out of the container (CVE-2024-21626): name the folder itself")},
		{name: "find the working directory", errno: unix.ENOENT, text: say("there is no such folder in the container: make it in the root, or leave -w out")},
		{name: "find the working directory", errno: unix.ENOTDIR, text: say("the working directory is no folder")},
		{name: "enter the working directory", errno: unix.EACCES, text: say("the program's user may not enter it: chmod it in the root, or use --user")},
		{name: "find /", errno: unix.ELOOP, text: say("a link in the root leads into /proc or in a circle: a mount point has to be a plain folder")},
		{name: "find /", errno: unix.ENOTDIR, text: say("the mount point is a file where a folder is needed, or the other way round: mend the root or the mount")},
		{name: "find /", errno: unix.ENOENT, text: say("the mount point is a link that leads nowhere inside the root: mend the root or the mount")},
		{name: "find /", errno: unix.EACCES, text: say("a folder on the way can't be entered")},
		{name: "look at", errno: unix.ELOOP, text: say("the program is a link into /proc, which would run the launcher's own binary inside the container (CVE-2019-5736), or a link in a circle: name the program itself")},
		{name: "open the cgroup's tasks", errno: unix.EACCES, text: say("the folder is there and its tasks file isn't ours to write: was it made by somebody else?")},
		{name: "enter the cgroup", errno: unix.ENOSPC, text: say("this cpuset has no CPUs or memory nodes (cpuset(7)): name them with --cpuset-cpus and --cpuset-mems")},
		{name: "new network namespace", errno: unix.ENOSPC, text: namespaceLimit},
		{name: "new cgroup namespace", errno: unix.ENOSPC, text: namespaceLimit},
		{name: "new network namespace", errno: unix.EPERM, text: forbidden},
		{name: "prove that the old root is gone", text: say("the root could not be isolated; nothing was executed. This is a bug: please report the output of `wolffia explain` with the same arguments")},
		{name: "become", errno: unix.EAGAIN, text: processLimit},
		{call: unix.SYS_PIVOT_ROOT, errno: unix.EINVAL, text: say("the host's own root is an initramfs, which pivot_root(2) can't replace: start from a real root file system (switch_root(8))")},
		{call: unix.SYS_EXECVE, text: notExecuted},
		{errno: unix.EMFILE, text: tooFewFiles},
		{errno: unix.ENFILE, text: say("the whole machine has no file left (/proc/sys/fs/file-max)")},
		{name: "mount point", errno: unix.ENOSPC, text: say(diskFull)},
		{name: "folder ", errno: unix.ENOSPC, text: say(diskFull)},
		{name: "link /", errno: unix.ENOSPC, text: say(diskFull)},
		{errno: unix.ENOSPC, text: say("the limit of mounts in one mount namespace is reached, and no disk is full: raise fs.mount-max (proc_sys_fs(5)) as root, or bind less")},
		{op: nsexec.OpPipe, errno: unix.EMFILE, text: tooFewFiles},
		{op: nsexec.OpExec, errno: unix.EMFILE, text: tooFewFiles},
		{op: nsexec.OpClone, errno: unix.EMFILE, text: tooFewFiles},
		{op: nsexec.OpWrite, errno: unix.EMFILE, text: tooFewFiles},
		{call: unix.SYS_MOUNT, errno: unix.EACCES, text: withoutCapabilities},
		{errno: unix.EPERM, text: withoutCapabilities},
		{errno: unix.ENOSYS, text: seccompOr("this kernel lacks the call; wolffia needs Linux 5.12")},
	}
}

func tooFewFiles(h *hinted) string {
	return "the limit of open files is too low for a start, which needs about 100: raise it with ulimit -n, or ulimit -Hn (RLIMIT_NOFILE)"
}

func seccompOr(otherwise string) func(*hinted) string {
	return func(h *hinted) string {
		if h.policy().Seccomp == 2 {
			return "a seccomp filter of an outer container or sandbox is in force (Seccomp: 2 in /proc/self/status), and it refuses this call: allow it there"
		}
		return otherwise
	}
}

// forbidden ranks what can forbid a namespace, by what was found.
func forbidden(h *hinted) string {
	p := h.policy()
	var causes []string
	if p.UsernsClone == "0" {
		causes = append(causes, "unprivileged user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1 (as root)")
	}
	if p.AppArmorUserns == "1" {
		causes = append(causes, "AppArmor restricts unprivileged user namespaces: give "+p.Exe+" a profile with \"userns,\", or sysctl kernel.apparmor_restrict_unprivileged_userns=0 (as root)")
	}
	if p.Seccomp == 2 {
		causes = append(causes, "a seccomp filter of an outer container or sandbox is in force (Seccomp: 2 in /proc/self/status): it has to allow clone3 and unshare")
	}
	if p.OwnUIDUnmapped {
		causes = append(causes, "this process has no id in its own user namespace")
	}
	if len(causes) == 0 {
		causes = append(causes, "no switch of this kernel forbids it as far as can be seen; a chroot, an LSM or an outer sandbox may: see user_namespaces(7), ERRORS of clone(2)")
	}
	return strings.Join(causes, "\n")
}

// namespaceLimit: ENOSPC is never about a disk here.
// cgroupRefused is package cgroup's word on one of its steps.
func cgroupRefused(h *hinted) string {
	return cgroup.Hint(h.plan.Cgroup.Before[h.plan.Host[h.step.Index].Number], h.step.Errno)
}

func namespaceLimit(h *hinted) string {
	p := h.policy()
	text := "a limit on namespaces is reached, not a disk: "
	var zero []string
	for _, l := range p.NamespaceLimits {
		if l.Max == 0 {
			zero = append(zero, l.Sysctl+" is 0")
		}
	}
	if len(zero) > 0 {
		return text + strings.Join(zero, ", ") + ": raise it as root, e.g. sysctl " + strings.Fields(zero[0])[0] + "=10000. If it is another value on the host, an outer sandbox set it"
	}
	var list []string
	for _, l := range p.NamespaceLimits {
		list = append(list, fmt.Sprintf("%s=%d", l.Sysctl, l.Max))
	}
	return text + strings.Join(list, " ") + " count for each user, here and in every outer namespace; user namespaces nest 32 deep at most (user_namespaces(7)). End some containers or raise the limit"
}

func processLimit(h *hinted) string {
	p := h.policy()
	text := "process limit reached: "
	if p.PidsMax != "" {
		return text + "pids.max is " + p.PidsMax + " in the cgroup " + p.PidsCgroup + ": raise it there"
	}
	return text + fmt.Sprintf("RLIMIT_NPROC is %s and counts every process of this user on the machine (ulimit -u), or the cgroup's pids.max or memory is used up",
		limitText(p.Nproc))
}

const diskFull = "the file system that the root lies on has no room or no inode left (df, df -i), or a quota is used up: not even a mount point can be made there"

// withoutCapabilities: Ubuntu's AppArmor lets the namespace be made and then
// refuses what needs a capability in it, which is the first mount.
func withoutCapabilities(h *hinted) string {
	p := h.policy()
	var causes []string
	if p.AppArmorUserns == "1" {
		causes = append(causes, "AppArmor let the namespace be made but without capabilities: give "+p.Exe+" a profile with \"userns,\", or sysctl kernel.apparmor_restrict_unprivileged_userns=0 (as root)")
	}
	if text := seccompOr("")(h); text != "" {
		causes = append(causes, text)
	}
	return strings.Join(causes, "\n")
}

func mapRefused(h *hinted) string {
	if text := withoutCapabilities(h); text != "" {
		return text
	}
	return "the kernel refused the map (user_namespaces(7), \"Defining user and group ID mappings\"): the ids may be mapped nowhere in this namespace, or an LSM denied it"
}

func helperRefused(h *hinted) string {
	f := h.plan.Facts.IDs
	var problems []string
	for _, tool := range []string{f.NewUIDMap.Problem(), f.NewGIDMap.Problem()} {
		if tool != "" {
			problems = append(problems, tool)
		}
	}
	if len(problems) > 0 {
		return strings.Join(problems, "\n")
	}
	return "the helper looked fine and refused all the same: compare /etc/subuid and /etc/subgid with the map; --map single needs no helper"
}

func noRootIDMap(h *hinted) string {
	return "the file system of " + h.plan.Options.Root.Path + " can't be idmapped (or is a mount that already is): use --map host, which keeps the ids as they are, or copy the root to ext4, xfs, btrfs or tmpfs, or chown it to the container's range"
}

func tooRevealing(h *hinted) string {
	return "a new proc needs a fully visible /proc in the parent, and here something is mounted over a part of it (\"mount too revealing\", mount_namespaces(7)); that is so inside most containers\n" +
		"three ways out: start the outer container with an unmasked /proc (podman: --security-opt unmask=/proc/*), mount a second proc somewhere in it, or share its pid namespace (--share pid), which binds its /proc"
}

func missingMountPoint(h *hinted) string {
	return "the mount point isn't there and can't be made, as the root is read-only or not this user's: make the folder (or the empty file) in the root beforehand"
}

// maxLayers is OVL_MAX_STACK of the kernel's fs/overlayfs/overlayfs.h.
const maxLayers = 500

func overlayRefused(h *hinted) string {
	upper := h.plan.Options.Root.Upper
	switch h.step.Errno {
	case unix.EPERM:
		return "overlayfs in a user namespace needs Linux 5.11; this is " + h.plan.Facts.Kernel + ": use --read-only"
	case unix.EINVAL:
		if n := len(h.plan.Options.Root.Lower) + 1; n > maxLayers {
			return fmt.Sprintf("%d layers, and overlayfs takes %d below the upper one: join some of them", n, maxLayers)
		}
		if upper != "" {
			return "overlayfs doesn't take this upper layer: it can't lie on another overlay, on a network file system or on a tmpfs before Linux 6.6, nor hold the marker of an earlier volatile overlay (work/incompat/volatile). Choose a folder on ext4, xfs or btrfs, or leave --upper out"
		}
		return "overlayfs doesn't take one of these layers: something of the host may be mounted below it (mounts inherited from the host are locked), or it is a kind of file system that can't be a layer"
	case unix.ELOOP:
		return "two layers overlap: one of " + strings.Join(h.plan.Options.Root.folders(), ", ") + " lies inside another. Each layer, the upper one and its work folder need folders of their own"
	case unix.EBUSY:
		return "another overlay uses this upper layer or its work folder"
	}
	return ""
}

// notExecuted tells which of the looks that execvp(3) has explains the failure.
func notExecuted(h *hinted) string {
	program := describeProgram(h.plan)
	switch h.step.Errno {
	case unix.ENOENT, unix.ENOTDIR:
		if path := h.existing(); path != "" {
			return path + " is there, but not what it needs to run: the interpreter of its #! line (does the line end in CR LF?), or the loader (ELF interpreter) that it was linked for"
		}
		return "there is no such program in the container: " + program
	case unix.EACCES:
		return "it isn't executable for this user: its x bit, the folders on the way, a mount with noexec, or it is a folder: " + program
	case unix.ENOEXEC:
		return "it is neither a program for this machine nor a script with a #! line: add one, such as #!/bin/sh, as the first line"
	case unix.E2BIG:
		return "arguments and environment together are too long"
	}
	return ""
}

// existing is the first candidate that the look before its execve found.
func (h *hinted) existing() string {
	for i, r := range h.report.Child {
		if path, is := strings.CutPrefix(h.plan.Child[i].Name, "look at "); is && r.Ran && r.Ret >= 0 {
			return path
		}
	}
	return ""
}
