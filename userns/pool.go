package userns

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// A Pool keeps user namespaces without maps ready, so that opening one costs no more than writing its maps.
//
// What it keeps is fds and no processes: for each namespace its own, and its open uid_map, gid_map and (where we lack
// CAP_SETGID) setgroups. The maps can be written through these when the child that made the namespace is long dead
// (see vm.go), so the Pool's goroutine makes children, takes hold of their namespaces and reaps them, one after the
// other, until the pool is full. Whatever happens to this process, the fds are closed with it and the namespaces are
// gone.
//
// Maps that newuidmap(1) or newgidmap(1) has to write go by the number of a living process: such a request gets a
// namespace of its own, made for it, of whose time the child is a small part.
type Pool struct {
	opener *Opener
	ready  chan pooled
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once
}

// pooled is a namespace, or why there is none.
type pooled struct {
	x   opening
	err error
}

// NewPool keeps size (at least 1) namespaces ready, four fds each, or three with CAP_SETGID. They count against
// RLIMIT_NOFILE and user.max_user_namespaces. The Opener must not be closed before the Pool.
func (o *Opener) NewPool(size int) (*Pool, error) {
	if size < 1 {
		return nil, &PlanError{Reason: ReasonBadRequest, Cause: fmt.Sprintf("a pool of %d user namespaces", size), Remedy: "keep at least one ready"}
	}
	// One more than the channel holds is in the goroutine's hand.
	p := &Pool{opener: o, ready: make(chan pooled, size-1), quit: make(chan struct{}), done: make(chan struct{})}
	go p.refill()
	return p, nil
}

// refill makes namespaces until the pool is closed. A failure is handed on in a namespace's place, and only when
// somebody has taken it is the next one tried.
func (p *Pool) refill() {
	defer close(p.done)
	for {
		made := p.make()
		select {
		case p.ready <- made:
		case <-p.quit:
			made.x.close()
			return
		}
	}
}

func (p *Pool) make() pooled {
	for {
		t, err := p.opener.mechanism()
		if err != nil {
			return pooled{newOpening(), err}
		}
		x, err := p.blank(t)
		if err == nil {
			return pooled{x, nil}
		}
		if !unavailable(err) || !p.opener.passOver(t, err) {
			return pooled{newOpening(), err}
		}
	}
}

// blank makes a namespace without maps, by the acts of a direct opening without its writes.
func (p *Pool) blank(t *prepared) (opening, error) {
	x, o, all := newOpening(), p.opener, t.direct
	for _, part := range []struct {
		acts []act
		at   int
	}{{all.blank, 0}, {all.end, len(all.blank) + len(all.fill)}} {
		if err := o.run(context.Background(), t, part.acts, part.at, all.len(), &x, nil); err != nil {
			x.abandon()
			return newOpening(), err
		}
	}
	return x, nil
}

// Open is [Opener.Open] out of the pool. If it is empty, Open waits for the next namespace.
func (p *Pool) Open(ctx context.Context, uid, gid IDMap) (*os.File, error) {
	m, err := p.opener.Prepare(uid, gid)
	if err != nil {
		return nil, err
	}
	fd, err := p.OpenRaw(ctx, m)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "user namespace"), nil
}

// OpenRaw is [Opener.OpenRaw] out of the pool. It allocates nothing.
func (p *Pool) OpenRaw(ctx context.Context, m *Maps) (int, error) {
	if !m.Direct() {
		return p.opener.OpenRaw(ctx, m)
	}
	var got pooled
	select {
	case got = <-p.ready:
	default:
		select {
		case got = <-p.ready:
		case <-ctx.Done():
			return -1, &cancelledError{context.Cause(ctx)}
		case <-p.done:
			return -1, errPoolClosed
		}
	}
	if got.err != nil {
		return -1, got.err
	}
	return p.fill(ctx, &got.x, m)
}

var errPoolClosed = fmt.Errorf("userns: the Pool is closed: %w", os.ErrClosed)

func (p *Pool) fill(ctx context.Context, x *opening, m *Maps) (int, error) {
	t, err := p.opener.mechanism()
	if err == nil {
		err = p.opener.run(ctx, t, t.direct.fill, len(t.direct.blank), t.direct.len(), x, m)
	}
	if err != nil {
		x.close()
		return -1, err
	}
	x.closeMaps()
	return x.ns, nil
}

// Close ends the refilling and closes what is ready. Namespaces that were handed out stay.
func (p *Pool) Close() error {
	p.once.Do(func() { close(p.quit) })
	<-p.done
	for {
		select {
		case left := <-p.ready:
			left.x.close()
		default:
			return nil
		}
	}
}
