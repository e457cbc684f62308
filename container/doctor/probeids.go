package doctor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// userns makes a user namespace with our own id, uses a capability in it, and
// sees how deep more of them nest.
func (p *prober) userns() {
	p.Userns = p.do(child{flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, steps: nsexec.Program{
		nsexec.Mount("tmpfs", "/dev", "tmpfs", 0, "").Named("mount a tmpfs").Because("a capability in the namespace has to be good for something"),
	}})
	if p.Userns.OK() {
		p.Depth = p.nested()
	}
}

// deepest is more than user namespaces can nest (create_user_ns() in
// kernel/user_namespace.c: 33 levels, the first of them the machine's own).
const deepest = 34

// nested counts how many user namespaces can be made inside each other.
func (p *prober) nested() int {
	program := nsexec.Program{nsexec.Unshare(unix.CLONE_FILES).Named("an fd table of its own")}
	uid, gid := os.Geteuid(), os.Getegid()
	var at []int
	for i := range deepest {
		level := inUserns(i, uid, gid, unix.CLONE_NEWUSER)
		at = append(at, len(program)+len(level)-1)
		program, uid, gid = append(program, level...), 0, 0
	}
	results, _ := nsexec.RunPrivate(p.ctx, program, nil)
	n := 0
	for _, i := range at {
		if i < len(results) && results[i].Ran && results[i].Errno() == 0 {
			n++
		}
	}
	return n
}

// ids reads who we are and what is delegated to us.
func (p *prober) ids() {
	if p.IDs == nil && p.IDsErr == nil {
		p.IDs, p.IDsErr = userns.Probe(userns.ProbeOptions{Mode: userns.Auto})
	}
}

// helpers opens a namespace with the ids that a container gets.
func (p *prober) helpers() {
	p.ids()
	if p.IDs == nil {
		return
	}
	m, err := userns.PlanMaps(userns.Request{Mode: userns.Auto}, p.IDs)
	if err == nil {
		p.Mapped = p.open(m.UID, m.GID)
	}
}

// usernsFDs opens a namespace by each mechanism.
func (p *prober) usernsFDs() {
	for _, m := range userns.Mechanisms() {
		a := p.open(justUs(os.Geteuid()), justUs(os.Getegid()), userns.Using(m))
		p.FDs = append(p.FDs, Mechanism{string(m), a})
	}
}

func justUs(id int) userns.IDMap { return userns.IDMap{{Inside: 0, Outside: uint32(id), Length: 1}} }

func (p *prober) open(uid, gid userns.IDMap, o ...userns.Option) Attempt {
	fd, err := p.usernsFD(uid, gid, o...)
	if err != nil {
		a := failed(err)
		var open *userns.OpenError
		if errors.As(err, &open) {
			a.Step, a.Call = open.Name, open.Call
		}
		return a
	}
	unix.Close(fd)
	return Attempt{Tried: true}
}

func (p *prober) usernsFD(uid, gid userns.IDMap, o ...userns.Option) (int, error) {
	opener, err := userns.NewOpener(o...)
	if err != nil {
		return -1, err
	}
	maps, err := opener.Prepare(uid, gid)
	fd := -1
	if err == nil {
		fd, err = opener.OpenRaw(p.ctx, maps)
	}
	return fd, errors.Join(err, opener.Close())
}

// pidfd uses each part once.
func (p *prober) pidfd() {
	s := nsexec.ProbePidfd()
	for _, part := range []struct {
		name, since string
		err         error
	}{
		{"clone3(2)", "5.3", s.Clone3}, {"CLONE_PIDFD", "5.2", s.Clone}, {"pidfd_open(2)", "5.3", s.Open},
		{"pidfd_send_signal(2)", "5.1", s.SendSignal}, {"waitid(P_PIDFD)", "5.4", s.Wait},
	} {
		found := Part{Name: part.name, Since: part.since}
		errors.As(part.err, &found.Errno)
		p.Pidfd = append(p.Pidfd, found)
	}
}

// ptrace has a child ask us to trace it (ptrace(2), Yama.rst).
func (p *prober) ptrace() {
	p.Yama = read("/proc/sys/kernel/yama/ptrace_scope")
	p.Ptrace = p.do(child{steps: nsexec.Program{
		nsexec.Step{Call: unix.SYS_PTRACE, Args: []nsexec.Arg{nsexec.Const("PTRACE_TRACEME", unix.PTRACE_TRACEME), nsexec.Int(0), nsexec.Null(), nsexec.Null()}}.Named("be traced"),
	}})
}
