package userns

import (
	"context"

	"golang.org/x/sys/unix"
)

// An act is one thing the parent does to get a namespace. An [Opener] executes a
// list of them, [Explain] prints the same list, and a test makes each of
// them fail.
type act struct {
	op   actOp
	name string
	call string // as it is printed; PID stands for the child's
	why  string
	man  string
}

type actOp uint8

const (
	actMake       actOp = iota
	actOpenUIDMap       // and the two below: fds outlive the child
	actOpenSetgroups
	actOpenGIDMap
	actNamespace
	actKill
	actWriteUIDMap
	actDenySetgroups
	actWriteGIDMap
	actHelpers
	actReap
)

// opening is one namespace while it is made.
type opening struct {
	child     holder // nil before it is made and after it was reaped
	killed    bool
	ns        int // the fds, -1 while there is none
	uidMap    int
	setgroups int
	gidMap    int
}

func newOpening() opening { return opening{ns: -1, uidMap: -1, setgroups: -1, gidMap: -1} }

// blankActs make a namespace without maps, and end the child.
func blankActs(make []act, deny bool) []act {
	list := append([]act(nil), make...)
	list = append(list, act{actOpenUIDMap, "open uid_map", `open("/proc/PID/uid_map", O_RDWR|O_CLOEXEC)`, "the open file holds the namespace, not the process", "user_namespaces(7)"})
	if deny {
		list = append(list, act{actOpenSetgroups, "open setgroups", `open("/proc/PID/setgroups", O_RDWR|O_CLOEXEC)`, "a writer without CAP_SETGID must deny it", "user_namespaces(7)"})
	}
	return append(list,
		act{actOpenGIDMap, "open gid_map", `open("/proc/PID/gid_map", O_RDWR|O_CLOEXEC)`, "", "user_namespaces(7)"},
		act{actNamespace, "take the namespace", "ioctl(pidfd, PIDFD_GET_USER_NAMESPACE)", "the fd that is asked for; before Linux 6.11 it is open(\"/proc/PID/ns/user\")", "ioctl_pidfd(2)"})
}

func killAct(why string) act {
	return act{actKill, "kill the child", "pidfd_send_signal(pidfd, SIGKILL)", "its success proves that PID was our child's until now; " + why, "pidfd_send_signal(2)"}
}

func reapAct() act {
	return act{actReap, "reap the child before this one", "waitid(P_PIDFD, its pidfd, WEXITED|__WALL)", "this one still dies, and to wait for that would cost more than all else: at most one zombie", "waitid(2)"}
}

// fillActs write the maps of a namespace whose child may be dead.
func fillActs(deny bool) []act {
	list := []act{{actWriteUIDMap, "write uid_map", "write(uid_map)", "", "user_namespaces(7)"}}
	if deny {
		list = append(list, act{actDenySetgroups, "deny setgroups", `write(setgroups, "deny")`, "or an unprivileged gid_map is refused (CVE-2014-8989)", "user_namespaces(7)"})
	}
	return append(list, act{actWriteGIDMap, "write gid_map", "write(gid_map)", "", "user_namespaces(7)"})
}

// program is the whole list for maps of one kind.
type program struct{ blank, fill, end []act }

// directProgram is for maps that we write.
func directProgram(make []act, deny bool) program {
	return program{append(blankActs(make, deny), killAct("it dies while the maps are written")), fillActs(deny), []act{reapAct()}}
}

// helperProgram is for maps that newuidmap(1) or newgidmap(1) writes: they go by
// the number of a process that lives.
func helperProgram(make []act, deny bool) program {
	fill := []act{{actHelpers, "run newuidmap and newgidmap", "execve(newuidmap, PID, …) and execve(newgidmap, PID, …), both at once", "set-uid programs, which compare /etc/subuid and /etc/subgid", "newuidmap(1)"}}
	return program{blankActs(make, deny), fill, []act{killAct("so the helpers reached it"), reapAct()}}
}

func (p program) len() int { return len(p.blank) + len(p.fill) + len(p.end) }

// run executes acts in their order; at counts from the whole program's first.
func (o *Opener) run(ctx context.Context, t *prepared, acts []act, at, total int, x *opening, m *Maps) error {
	for i := range acts {
		if err := o.do(ctx, t.maker, &acts[i], x, m); err != nil {
			return failed(t.name, &acts[i], at+i, total, m, err)
		}
	}
	return nil
}

func (o *Opener) do(ctx context.Context, mk maker, a *act, x *opening, m *Maps) (err error) {
	if o.fault != nil {
		if err := o.fault(a.op); err != nil {
			return err
		}
	}
	const rdwr = unix.O_RDWR
	switch a.op {
	case actMake:
		x.child, err = mk.make()
	case actOpenUIDMap:
		x.uidMap, err = openProc(x.child.id(), "uid_map", rdwr)
	case actOpenSetgroups:
		x.setgroups, err = openProc(x.child.id(), "setgroups", rdwr)
	case actOpenGIDMap:
		x.gidMap, err = openProc(x.child.id(), "gid_map", rdwr)
	case actNamespace:
		x.ns, err = namespaceOf(x.child)
	case actKill:
		err = x.child.kill()
		x.killed = err == nil
	case actWriteUIDMap:
		err = writeAll(x.uidMap, m.uidText)
		closeFD(&x.uidMap)
	case actDenySetgroups:
		if m.DenySetgroups {
			err = writeAll(x.setgroups, denyText)
		}
		closeFD(&x.setgroups)
	case actWriteGIDMap:
		err = writeAll(x.gidMap, m.gidText)
		closeFD(&x.gidMap)
	case actHelpers:
		err = o.helpers(ctx, x, m)
	case actReap:
		err = o.retire(ctx, x.child)
		x.child = nil
	}
	return err
}

// namespaceOf takes hold of the user namespace of a child that nobody has reaped.
func namespaceOf(c holder) (int, error) {
	fd, err := ioctlFD(c.pidfd(), unix.PIDFD_GET_USER_NAMESPACE)
	if err == unix.ENOTTY || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM { // before 6.11, or filtered
		return openProc(c.id(), "ns/user", unix.O_RDONLY)
	}
	return fd, err
}

func (x *opening) close() {
	closeFD(&x.ns)
	x.closeMaps()
}

func (x *opening) closeMaps() {
	closeFD(&x.uidMap)
	closeFD(&x.setgroups)
	closeFD(&x.gidMap)
}
