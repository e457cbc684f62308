package doctor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
)

func (f *Facts) judgePidfd() Check {
	var lost []string
	states := map[string]string{}
	var noChild bool
	for _, p := range f.Pidfd {
		states[p.Name] = "works"
		if p.Errno != 0 {
			states[p.Name] = errnoText(p.Errno)
			lost = append(lost, fmt.Sprintf("%s (Linux %s): %s", p.Name, p.Since, errnoText(p.Errno)))
			noChild = noChild || p.Name == "CLONE_PIDFD"
		}
	}
	cause := container.Cause{Code: "pidfd-part", What: strings.Join(lost, "; "), Remedy: "a newer kernel has it"}
	if f.Policy.Seccomp == 2 {
		cause = container.Cause{Code: reasonSeccomp, What: "blocked by seccomp (Seccomp: 2): " + strings.Join(lost, "; "), Remedy: "allow the calls in the profile of the outer container or sandbox"}
	}
	switch {
	case len(f.Pidfd) == 0:
		c, _ := f.early(Attempt{}, "")
		return c
	case noChild:
		return cant(cause).with("parts", states)
	case len(lost) > 0:
		return but("done in another way", cause).with("parts", states)
	}
	return works("all parts").with("parts", states)
}

func (f *Facts) judgePtrace() Check {
	if c, done := f.early(f.Ptrace, yamaText(f.Yama)); done {
		return c.with("ptrace_scope", f.Yama)
	}
	const only = "no container needs it, only debuggers and the mechanism ptrace of user namespace fds"
	switch {
	case f.Policy.Seccomp == 2 && f.Ptrace.filtered() && f.Yama != "2" && f.Yama != "3":
		return cant(container.Cause{Code: "ptrace-seccomp", What: "blocked by seccomp (Seccomp: 2)", Remedy: "allow ptrace(2) in the profile of the outer container; " + only}).with("ptrace_scope", f.Yama)
	case f.Yama == "2":
		return cant(container.Cause{Code: "ptrace-yama", What: "Yama allows it to root alone (kernel.yama.ptrace_scope is 2)", Remedy: "as root: sysctl kernel.yama.ptrace_scope=1; " + only}).with("ptrace_scope", f.Yama)
	case f.Yama == "3":
		return cant(container.Cause{Code: "ptrace-yama-off", What: "Yama forbids it to everybody (kernel.yama.ptrace_scope is 3)", Remedy: "3 can't be taken back before a reboot; " + only}).with("ptrace_scope", f.Yama)
	}
	return cant(f.refused(f.Ptrace, only)).with("ptrace_scope", f.Yama)
}

func yamaText(scope string) string {
	switch scope {
	case "":
		return "a child is traced; no Yama here"
	case "1":
		return "a child is traced; Yama's ptrace_scope is 1: no other process is"
	}
	return "a child is traced; Yama's ptrace_scope is " + scope
}

func (f *Facts) judgeSeccomp() Check {
	detail := "a filter was installed and answered a call"
	if f.Policy.Seccomp == 2 {
		detail += "; another stands above this process (Seccomp: 2)"
	}
	c, done := f.early(f.Seccomp, detail)
	if !done {
		c = cant(f.refused(f.Seccomp, "the kernel needs CONFIG_SECCOMP_FILTER"))
	}
	return c.with("seccomp", f.Policy.Seccomp)
}

func (f *Facts) judgeTimens() Check {
	c, done := f.early(f.Timens.Attempt, "a program was started in one")
	switch {
	case done && f.Timens.OK() && !f.Timens.Inside:
		return but("one can be made", container.Cause{Code: "timens-children", What: "a program executed in it stays outside, and can make no thread (EINVAL); its children by fork(2) are inside",
			Remedy: "a newer kernel takes a program in at its execve(2)"})
	case done:
		return c
	case f.Timens.Errno == unix.EINVAL:
		return cant(container.Cause{Code: "timens-kernel", What: "this kernel has no time namespaces (" + f.Timens.Call + ": EINVAL)", Remedy: "Linux 5.6 brought them, with CONFIG_TIME_NS"})
	}
	return cant(f.refused(f.Timens.Attempt, "see time_namespaces(7)"))
}

func (f *Facts) judgeKeyring() Check {
	if c, done := f.early(f.Keyring, "a new session keyring was joined"); done {
		return c
	}
	const left = "; a container keeps the caller's session keyring, and can read its keys"
	switch {
	case f.Keyring.Errno == unix.EDQUOT:
		return but("none can be made"+left, container.Cause{Code: "keyring-quota", What: "this user's quota of keys is used up (EDQUOT)", Remedy: "as root: sysctl kernel.keys.maxkeys=2000 (keyrings(7))"})
	case f.Keyring.Errno == unix.ENOSYS && f.Policy.Seccomp != 2:
		return works("this kernel has none, and so there is none to hide")
	}
	return but("none can be made"+left, f.refused(f.Keyring, "see keyrings(7)"))
}

// fewFiles is what a start needs at least of RLIMIT_NOFILE.
const fewFiles = 100

func (f *Facts) judgeLimits() Check {
	if len(f.Limits) == 0 {
		c, _ := f.early(Attempt{}, "")
		return c
	}
	var text []string
	var causes []container.Cause
	state := Works
	for _, l := range f.Limits {
		text = append(text, l.Name+" "+limitText(l))
		switch {
		case l.Name == "nofile" && l.Hard < fewFiles:
			causes, state = append(causes, container.TooFewFiles()), Cant
		case l.Name == "nproc" && l.Soft < 1000:
			causes = append(causes, container.Cause{Code: "nproc", What: fmt.Sprintf("RLIMIT_NPROC is %d and counts every process of this uid, in containers and out of them", l.Soft),
				Remedy: "raise it (ulimit -u), and limit a container with --pids-limit instead"})
		}
	}
	c := Check{State: state, Detail: strings.Join(text, ", "), Causes: causes}
	if len(causes) > 0 {
		c.Reason = causes[0].Code
		if state == Works {
			c.State = WorksBut
		}
	}
	for _, l := range f.Limits {
		c = c.with(l.Name, []uint64{l.Soft, l.Hard})
	}
	return c
}

func limitText(l Limit) string {
	one := func(v uint64) string {
		if v == unix.RLIM_INFINITY {
			return "unlimited"
		}
		return fmt.Sprint(v)
	}
	if l.Soft == l.Hard {
		return one(l.Soft)
	}
	return one(l.Soft) + "/" + one(l.Hard)
}
