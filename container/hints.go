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
		{op: nsexec.OpWrite, errno: unix.ENOENT, text: say(UnseenChild().String())},
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
		{name: "open a new overlay", errno: unix.ENODEV, text: say(NoOverlay(unix.ENODEV, "").String())},
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

func tooFewFiles(*hinted) string { return TooFewFiles().String() }

func seccompOr(otherwise string) func(*hinted) string {
	return func(h *hinted) string { return h.policy().SeccompOr(Cause{What: otherwise}).String() }
}

func forbidden(h *hinted) string { return joinCauses(h.policy().ForbidsUserns()) }

// cgroupRefused is package cgroup's word on one of its steps.
func cgroupRefused(h *hinted) string {
	return cgroup.Hint(h.plan.Cgroup.Before[h.plan.Host[h.step.Index].Number], h.step.Errno)
}

func namespaceLimit(h *hinted) string { return h.policy().NamespaceLimit().String() }

func processLimit(h *hinted) string { return h.policy().ProcessLimit().String() }

const diskFull = "the file system that the root lies on has no room or no inode left (df, df -i), or a quota is used up: not even a mount point can be made there"

func withoutCapabilities(h *hinted) string { return joinCauses(h.policy().TakesCapabilities()) }

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

func tooRevealing(*hinted) string { return TooRevealing().String() }

func missingMountPoint(h *hinted) string {
	return "the mount point isn't there and can't be made, as the root is read-only or not this user's: make the folder (or the empty file) in the root beforehand"
}

// maxLayers is OVL_MAX_STACK of the kernel's fs/overlayfs/overlayfs.h.
const maxLayers = 500

func overlayRefused(h *hinted) string {
	upper := h.plan.Options.Root.Upper
	switch h.step.Errno {
	case unix.EPERM:
		return NoOverlay(unix.EPERM, h.plan.Facts.Kernel).String()
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
