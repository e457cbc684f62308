package container

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A Cause is one thing that forbids what was tried, and what mends it. The hints
// of a start that failed and `wolffia doctor` tell the same causes.
type Cause struct {
	Code   string `json:"reason"` // stable: "userns-apparmor"
	What   string `json:"cause"`
	Remedy string `json:"remedy,omitempty"` // commands, or what else to do; "" when there is nothing
}

// String is cause and remedy for a person.
func (c Cause) String() string {
	if c.Remedy == "" {
		return c.What
	}
	return c.What + ": " + c.Remedy
}

func joinCauses(list []Cause) string {
	var texts []string
	for _, c := range list {
		texts = append(texts, c.String())
	}
	return strings.Join(texts, "\n")
}

// ForbidsUserns ranks what can forbid a user namespace (EPERM or EACCES of
// clone(2)), by what was found. It is never empty.
func (p Policy) ForbidsUserns() []Cause {
	var causes []Cause
	if p.UsernsClone == "0" {
		causes = append(causes, Cause{"userns-clone-sysctl", "unprivileged user namespaces are switched off", "sysctl kernel.unprivileged_userns_clone=1 (as root)"})
	}
	if p.AppArmorUserns == "1" {
		causes = append(causes, Cause{"userns-apparmor", "AppArmor restricts unprivileged user namespaces", p.appArmorRemedy()})
	}
	if p.Seccomp == 2 {
		causes = append(causes, Cause{"seccomp", "a seccomp filter of an outer container or sandbox is in force (Seccomp: 2 in /proc/self/status)", "it has to allow clone3 and unshare"})
	}
	if p.OwnUIDUnmapped {
		causes = append(causes, Cause{"own-uid-unmapped", "this process has no id in its own user namespace", ""})
	}
	if len(causes) == 0 {
		causes = append(causes, Cause{"userns-forbidden", "no switch of this kernel forbids it as far as can be seen; a chroot, an LSM or an outer sandbox may", "see user_namespaces(7), ERRORS of clone(2)"})
	}
	return causes
}

// appArmorRemedy is a profile for our own binary (apparmor.d(5)), or the switch.
func (p Policy) appArmorRemedy() string {
	return "give " + p.Exe + " a profile with \"userns,\", or sysctl kernel.apparmor_restrict_unprivileged_userns=0 (as root). The profile, as root:\n" +
		"echo 'abi <abi/4.0>, profile wolffia " + p.Exe + " flags=(unconfined) { userns, }' >/etc/apparmor.d/wolffia && apparmor_parser -r /etc/apparmor.d/wolffia"
}

// NamespaceLimit is why there can be no further namespace: ENOSPC is never about
// a disk there.
func (p Policy) NamespaceLimit() Cause {
	var zero, list []string
	for _, l := range p.NamespaceLimits {
		if l.Max == 0 {
			zero = append(zero, l.Sysctl+" is 0")
		}
		list = append(list, fmt.Sprintf("%s=%d", l.Sysctl, l.Max))
	}
	const what = "a limit on namespaces is reached, not a disk: "
	if len(zero) > 0 {
		return Cause{"namespaces-off", what + strings.Join(zero, ", "),
			"raise it as root, e.g. sysctl " + strings.Fields(zero[0])[0] + "=10000. If it is another value on the host, an outer sandbox set it"}
	}
	return Cause{"namespace-limit", what + strings.Join(list, " ") + " count for each user, here and in every outer namespace; user namespaces nest 32 deep at most (user_namespaces(7))",
		"end some containers or raise the limit"}
}

// ProcessLimit is why there can be no further process.
func (p Policy) ProcessLimit() Cause {
	if p.PidsMax != "" {
		return Cause{"pids-max", "process limit reached: pids.max is " + p.PidsMax + " in the cgroup " + p.PidsCgroup, "raise it there"}
	}
	return Cause{"process-limit", fmt.Sprintf("process limit reached: RLIMIT_NPROC is %s and counts every process of this user on the machine (ulimit -u), or the cgroup's pids.max or memory is used up",
		limitText(p.Nproc)), ""}
}

// TakesCapabilities are what can leave a user namespace without capabilities:
// Ubuntu's AppArmor lets it be made and then refuses what needs one in it.
func (p Policy) TakesCapabilities() []Cause {
	var causes []Cause
	if p.AppArmorUserns == "1" {
		causes = append(causes, Cause{"userns-apparmor", "AppArmor let the namespace be made but without capabilities", p.appArmorRemedy()})
	}
	if p.Seccomp == 2 {
		causes = append(causes, p.filtered())
	}
	return causes
}

func (p Policy) filtered() Cause {
	return Cause{"seccomp", "a seccomp filter of an outer container or sandbox is in force (Seccomp: 2 in /proc/self/status), and it refuses this call", "allow it there"}
}

// SeccompOr is the filter that stands above us, or else another cause.
func (p Policy) SeccompOr(otherwise Cause) Cause {
	if p.Seccomp == 2 {
		return p.filtered()
	}
	return otherwise
}

// TooFewFiles is RLIMIT_NOFILE, too low for a start.
func TooFewFiles() Cause {
	return Cause{"nofile", "the limit of open files is too low for a start, which needs about 100", "raise it with ulimit -n, or ulimit -Hn (RLIMIT_NOFILE)"}
}

// TooRevealing is a proc that can't be mounted (EPERM).
func TooRevealing() Cause {
	return Cause{"proc-masked", "a new proc needs a fully visible /proc in the parent, and here something is mounted over a part of it (\"mount too revealing\", mount_namespaces(7)); that is so inside most containers",
		"three ways out: start the outer container with an unmasked /proc (podman: --security-opt unmask=/proc/*), mount a second proc somewhere in it, or share its pid namespace (--share pid), which binds its /proc"}
}

// NoOverlay is why overlayfs itself isn't to be had in a user namespace, where
// the errno tells that: EPERM and ENODEV. Else Code is "".
func NoOverlay(errno unix.Errno, kernel string) Cause {
	switch errno {
	case unix.EPERM:
		return Cause{"overlay-kernel", "overlayfs in a user namespace needs Linux 5.11; this is " + kernel, "use --read-only"}
	case unix.ENODEV:
		return Cause{"overlay-missing", "this kernel has no overlayfs", "load it as root (modprobe overlay), or use --read-only"}
	}
	return Cause{}
}

// UnseenChild is a child whose folder in /proc isn't to be seen (ENOENT).
func UnseenChild() Cause {
	return Cause{"hidepid", "the child's folder in /proc can't be seen", "is /proc mounted with hidepid=2, or not mounted at all?"}
}
