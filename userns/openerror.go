package userns

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// OpenError is a namespace that couldn't be opened: the step that failed, and what to do. It unwraps to the errno.
// Nothing of the opening is left.
type OpenError struct {
	Mechanism Mechanism
	Step      int // from 1
	Total     int
	Name      string
	Call      string
	Remedy    string // "" where the cause says it
	Err       error
}

func (e *OpenError) Error() string {
	text := fmt.Sprintf("userns: open by %s: step %d/%d %q: %s: %s", e.Mechanism, e.Step, e.Total, e.Name, e.Call, reasonText(e.Err))
	if e.Remedy != "" {
		text += "\n  " + e.Remedy
	}
	return text
}

func (e *OpenError) Unwrap() error { return e.Err }

func reasonText(err error) string {
	if errno, bare := err.(unix.Errno); bare {
		return fmt.Sprintf("%s (%s)", errno, nsexec.ErrnoName(errno))
	}
	return err.Error()
}

// NoMapError is a helper that ended with 0 and wrote nothing.
type NoMapError struct{ Helper string }

func (e *NoMapError) Error() string {
	return e.Helper + " ended with 0 and wrote no map: is it the real newuidmap(1) or newgidmap(1)?"
}

// VanishedError is a child that another wait of this program reaped, or somebody killed and a wait reaped, before its
// namespace was taken. What was opened by its number was given up.
type VanishedError struct{}

func (e *VanishedError) Error() string {
	return "the child was reaped by another wait of this program before its namespace was taken; nothing that was opened by its number is used"
}

func (e *VanishedError) Unwrap() error { return nsexec.ErrDone }

type cancelledError struct{ cause error }

func (e *cancelledError) Error() string {
	return "userns: the opening was cancelled: " + e.cause.Error()
}
func (e *cancelledError) Unwrap() error { return e.cause }

// failed is the error of one act.
func failed(by Mechanism, a *act, at, total int, m *Maps, err error) error {
	e := &OpenError{Mechanism: by, Step: at + 1, Total: total, Name: a.name, Call: a.call, Err: err}
	if m != nil {
		e.Call = strings.NewReplacer("write(uid_map)", fmt.Sprintf("write(uid_map, %q)", m.uidText),
			"write(gid_map)", fmt.Sprintf("write(gid_map, %q)", m.gidText)).Replace(e.Call)
	}
	if errors.Is(err, nsexec.ErrDone) {
		e.Err = &VanishedError{}
		return e
	}
	e.Remedy = remedy(a.op, err)
	return e
}

// remedy is what to do about an errno of one act; the first line that fits.
func remedy(op actOp, err error) string {
	if unavailable(err) {
		return forbidden() // the error itself says what else it may be
	}
	if op == actHelpers {
		return helperText()
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	for _, r := range []struct {
		ops   []actOp
		errno unix.Errno
		text  func() string
	}{
		{[]actOp{actMake}, unix.EPERM, forbiddenText},
		{[]actOp{actMake}, unix.EACCES, forbiddenText},
		{[]actOp{actMake}, unix.ENOSPC, limitText},
		{[]actOp{actMake}, unix.EUSERS, limitText},
		{[]actOp{actMake}, unix.EAGAIN, processText},
		{[]actOp{actMake}, unix.EINVAL, say("this kernel is built without CONFIG_USER_NS, or an outer sandbox refuses it: see user_namespaces(7)")},
		{nil, unix.EMFILE, filesText},
		{nil, unix.ENFILE, say("the whole machine has too many files open: sysctl fs.file-max")},
		{nil, unix.ENOMEM, say("the kernel had no memory for it: look for a memory limit (memory.max of this control group) or free some")},
		{[]actOp{actOpenUIDMap, actOpenSetgroups, actOpenGIDMap, actNamespace}, unix.EACCES,
			say("/proc/PID belongs to root while this process is not dumpable (PR_SET_DUMPABLE, prctl(2)): it changed its credentials, its file can't be read, or a *nsexec.Spawner of it starts a container just now. The mechanism ptrace can do it: its child is dumpable again")},
		{[]actOp{actOpenUIDMap, actOpenSetgroups, actOpenGIDMap}, unix.ENOENT,
			say("the child's folder in /proc can't be seen: is /proc mounted, without hidepid=2, and for this pid namespace?")},
		{[]actOp{actWriteUIDMap, actWriteGIDMap, actDenySetgroups}, unix.EPERM,
			say("the kernel refused the map: an id isn't ours to map, or this process changed its ids or capabilities after the Opener was made; user_namespaces(7), \"Defining user and group ID mappings\"")},
		{[]actOp{actWriteUIDMap, actWriteGIDMap}, unix.EINVAL,
			say("the kernel takes the map for malformed: before 4.15 it takes 5 lines; user_namespaces(7)")},
	} {
		if r.errno == errno && (r.ops == nil || hasOp(r.ops, op)) {
			return r.text()
		}
	}
	return ""
}

// helperText: the helpers have said what is wrong with the maps, but a tracer they can't see.
func helperText() string {
	if pid := tracer(); pid != "" {
		return "process " + pid + " traces this one: below a tracer without CAP_SYS_PTRACE, set-uid programs run without their privilege (execve(2)). As root: strace -f -u USER COMMAND"
	}
	return ""
}

func hasOp(list []actOp, op actOp) bool {
	for _, o := range list {
		if o == op {
			return true
		}
	}
	return false
}

func say(text string) func() string { return func() string { return text } }

// sysctl reads a file below /proc/sys; "" if it isn't there.
func sysctl(path string) string {
	text, err := os.ReadFile("/proc/sys/" + path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func forbiddenText() string {
	if found := forbidden(); found != "" {
		return found
	}
	return "something forbids user namespaces here: a security module, an outer container's seccomp filter, or a root that was changed with chroot(2)"
}

// forbidden names the settings that forbid user namespaces here.
func forbidden() string {
	var found []string
	if sysctl("kernel/unprivileged_userns_clone") == "0" {
		found = append(found, "kernel.unprivileged_userns_clone is 0: as root, sysctl kernel.unprivileged_userns_clone=1")
	}
	if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		found = append(found, "AppArmor forbids it to programs without a profile (kernel.apparmor_restrict_unprivileged_userns is 1): give this program one with \"userns,\"")
	}
	return strings.Join(found, "; or ")
}

func limitText() string {
	return fmt.Sprintf("this is no disk: a limit of user namespaces is reached. user.max_user_namespaces is %s here; it counts those of one user, "+
		"in this namespace and in each above it (as root: sysctl user.max_user_namespaces=15000). Or this namespace is nested 33 deep, and the kernel allows no deeper one",
		orUnknown(sysctl("user/max_user_namespaces")))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func processText() string {
	return "no further process is allowed: RLIMIT_NPROC is " + softLimit(unix.RLIMIT_NPROC) + " (ulimit -u; it counts all processes of this uid), or pids.max of this control group is reached"
}

func filesText() string {
	return "too many files are open in this process: RLIMIT_NOFILE is " + softLimit(unix.RLIMIT_NOFILE) + " (ulimit -n); an opening takes five fds for a moment, and each namespace keeps one"
}

func softLimit(resource int) string {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return "unknown"
	}
	if l.Cur == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprint(l.Cur)
}
