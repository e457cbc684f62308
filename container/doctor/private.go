package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// unshare(2) refuses CLONE_NEWUSER to a process whose memory is shared, so what
// nests user namespaces runs in a child with a copy of ours (nsexec.RunPrivate).
// The namespaces are fresh and nobody else's, so the child may be dumpable: else
// its own /proc/self/uid_map would be root's.

// inUserns enters new namespaces and makes these ids 0 in them. level tells its
// slots from those of other calls in one program.
func inUserns(level, uid, gid int, flags uint64) nsexec.Program {
	p := nsexec.Program{
		nsexec.Prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, nsexec.Int(1)).Named("dumpable again"),
		nsexec.Unshare(flags).Named(stepMake),
	}
	for _, file := range []struct{ name, path, text string }{
		{stepDeny, "/proc/self/setgroups", "deny"},
		{stepUIDMap, "/proc/self/uid_map", fmt.Sprintf("0 %d 1", uid)},
		{stepGIDMap, "/proc/self/gid_map", fmt.Sprintf("0 %d 1", gid)},
	} {
		slot := fmt.Sprintf("%s %d", file.path, level)
		p = append(p,
			nsexec.Openat(nsexec.AtCWD(), file.path, unix.O_WRONLY, 0).Named(file.name).As(slot),
			nsexec.Step{Call: unix.SYS_WRITE, Args: []nsexec.Arg{nsexec.Slot(slot), nsexec.Str(file.text), nsexec.Int(len(file.text))}}.Named(file.name),
			nsexec.Close(nsexec.Slot(slot)).Named("close it"))
	}
	return p
}

// lentFDs are fds that children opened in the table that they share with us, by
// slot.
type lentFDs map[string]int

// run executes a program that may use them, and keeps the fds that it leaves.
func (l lentFDs) run(ctx context.Context, p nsexec.Program) error {
	results, err := nsexec.RunPrivate(ctx, p, l)
	closed := map[string]bool{}
	for i := len(results) - 1; i >= 0; i-- {
		switch r := results[i]; {
		case p[i].Call == unix.SYS_CLOSE && r.Ran:
			closed[p[i].Args[0].Text] = true
		case p[i].Save != "" && r.Ran && r.Ret >= 0 && !closed[p[i].Save]:
			l[p[i].Save] = int(r.Ret)
		}
	}
	return err
}

func (l lentFDs) close() {
	for _, fd := range l {
		unix.Close(fd)
	}
}
