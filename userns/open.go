package userns

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open makes a user namespace with these maps and returns an fd of it, close-on-exec: for idmapped mounts
// (MOUNT_ATTR_IDMAP, mount_setattr(2)), setns(2), or another child's CLONE_NEWUSER below it. The namespace lives as
// long as the fd, or a process or mount that uses it; no process is left. The outside ids are ids of our own
// namespace.
//
// Root may map any ids that exist here. An ordinary user may map his own id alone, which is written directly, and
// his sub-ids, which newuidmap(1) and newgidmap(1) write. What can be known to be wrong is a *PlanError before
// anything is made; what the kernel refuses is an *OpenError with step, call, errno, cause and remedy. Nothing is
// left of an opening that failed or whose context ended. An *os.File is returned that is in blocking mode: it can't
// be polled.
//
// Linux 5.3 (CLONE_PIDFD with clone3(2)), user_namespaces(7). Each call finds out anew who the caller is; who opens
// many keeps an [Opener].
func Open(ctx context.Context, uid, gid IDMap, opts ...Option) (*os.File, error) {
	o, err := NewOpener(opts...)
	if err != nil {
		return nil, err
	}
	file, err := o.Open(ctx, uid, gid)
	return file, errors.Join(err, o.Close())
}

// Open is [Open] with what the Opener knows already. The namespace's child has been killed, but may still be dying: see
// [Opener.Settle].
func (o *Opener) Open(ctx context.Context, uid, gid IDMap) (*os.File, error) {
	files, err := o.OpenBatch(ctx, uid, gid, 1)
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// OpenBatch opens n namespaces with the same maps at once: children die while others are made.
func (o *Opener) OpenBatch(ctx context.Context, uid, gid IDMap, n int) ([]*os.File, error) {
	m, err := o.Prepare(uid, gid)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, &PlanError{Reason: ReasonBadRequest, Cause: fmt.Sprintf("%d user namespaces", n), Remedy: "ask for none or more"}
	}
	fds := make([]int, n)
	if err := o.OpenMany(ctx, m, fds); err != nil {
		return nil, err
	}
	files := make([]*os.File, n)
	for i, fd := range fds {
		files[i] = newFile(fd)
	}
	return files, nil
}

func newFile(fd int) *os.File { return os.NewFile(uintptr(fd), "user namespace") }

// OpenRaw is Open for prepared maps; the fd, close-on-exec, is the caller's. With the mechanism vm and maps that are
// written directly it allocates nothing. The namespace's child has been killed, but may still be dying: see
// [Opener.Settle].
func (o *Opener) OpenRaw(ctx context.Context, m *Maps) (int, error) {
	fds := [1]int{-1}
	err := o.OpenMany(ctx, m, fds[:])
	return fds[0], err
}

// OpenMany fills fds with as many new namespaces with the same maps: children die while others are made. After an
// error none is left open and all fds are -1.
func (o *Opener) OpenMany(ctx context.Context, m *Maps, fds []int) error {
	for i := range fds {
		fds[i] = -1
	}
	if err := o.begin(); err != nil {
		return err
	}
	defer o.running.Done()
	for i := 0; i < len(fds); i += maxAtOnce {
		if err := o.openSome(ctx, m, fds[i:min(i+maxAtOnce, len(fds))]); err != nil {
			for k := range fds {
				closeFD(&fds[k])
			}
			return err
		}
	}
	return nil
}

// maxAtOnce bounds the children, and with them the fds, that one call has at a time.
const maxAtOnce = 16

func (o *Opener) openSome(ctx context.Context, m *Maps, fds []int) error {
	for {
		t, err := o.mechanism()
		if err != nil {
			return err
		}
		err = o.openBy(ctx, t, m, fds)
		if exhausted(err) && o.settled(ctx) {
			err = o.openBy(ctx, t, m, fds)
		}
		if err == nil || !o.passOver(t, err) {
			return err
		}
	}
}

// exhausted tells that a limit was reached which a zombie of ours counts against.
func exhausted(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EMFILE)
}

// settled is Settle, and whether there was a child to wait for.
func (o *Opener) settled(ctx context.Context) bool {
	o.dying.Lock()
	had := o.dying.child != nil || len(o.dying.late) > 0
	o.dying.Unlock()
	return had && o.Settle(ctx) == nil
}

// openBy opens len(fds) namespaces by one mechanism: all children are made, all maps written, all ends waited for.
func (o *Opener) openBy(ctx context.Context, t *prepared, m *Maps, fds []int) error {
	var room [maxAtOnce]opening
	list := room[:len(fds)]
	for i := range list {
		list[i] = newOpening()
	}
	p := &t.direct
	if !m.Direct() {
		p = &t.helped
	}
	err := o.openAll(ctx, t, p, m, list)
	for i := range list {
		if err != nil {
			list[i].abandon()
			continue
		}
		list[i].closeMaps()
		fds[i] = list[i].ns
	}
	return err
}

func (o *Opener) openAll(ctx context.Context, t *prepared, p *program, m *Maps, list []opening) error {
	at := 0
	for _, acts := range [...][]act{p.blank, p.fill, p.end} {
		for i := range list {
			if err := ctx.Err(); err != nil {
				return &cancelledError{context.Cause(ctx)}
			}
			if err := o.run(ctx, t, acts, at, p.len(), &list[i], m); err != nil {
				return err
			}
		}
		at += len(acts)
	}
	return nil
}
