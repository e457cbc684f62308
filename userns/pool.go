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
// The refilling begins when a quarter of the pool has been taken: until then a request wakes nobody.
type Pool struct {
	opener *Opener
	size   int
	need   chan struct{} // to the refilling goroutine: look again
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	ready   []opening
	failure error         // of the refilling, until somebody is told
	news    chan struct{} // closed when there is something for those who wait; nil if nobody does
}

// NewPool keeps size (at least 1) namespaces ready, four fds each, or three with CAP_SETGID. They count against
// RLIMIT_NOFILE and user.max_user_namespaces. The error, of a smaller size, is a *PlanError; what the refilling meets
// is told by [Pool.Open] and [Pool.Fill]. Close the Pool before the Opener.
func (o *Opener) NewPool(size int) (*Pool, error) {
	if size < 1 {
		return nil, &PlanError{Reason: ReasonBadRequest, Cause: fmt.Sprintf("a pool of %d user namespaces", size), Remedy: "keep at least one ready"}
	}
	p := &Pool{opener: o, size: size, ready: make([]opening, 0, size),
		need: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go p.refill()
	return p, nil
}

// take gives a namespace; or the failure that keeps the pool empty; or, if there is neither, news to wait for. It
// forgets an earlier failure, whose cause may have gone: the refilling tries again.
func (p *Pool) take() (x opening, news chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.ready) - 1
	if p.size-last >= max(1, p.size/4) { // what is missing when this one is taken
		p.wake()
	}
	switch {
	case last >= 0:
		x, p.failure = p.ready[last], nil
		p.ready = p.ready[:last]
	case p.failure != nil:
		err, p.failure = p.failure, nil
	default:
		news = p.wait()
	}
	return x, news, err
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
	return newFile(fd), nil
}

// OpenRaw is [Opener.OpenRaw] out of the pool. It allocates nothing.
func (p *Pool) OpenRaw(ctx context.Context, m *Maps) (int, error) {
	switch {
	case p.ended():
		return -1, errPoolClosed
	case !m.Direct():
		return p.opener.OpenRaw(ctx, m)
	}
	for {
		x, news, err := p.take()
		switch {
		case err != nil:
			return -1, err
		case news == nil:
			return p.fill(ctx, &x, m)
		}
		if err := p.await(ctx, news); err != nil {
			return -1, err
		}
	}
}

const errPoolClosed closedError = "Pool"

func (p *Pool) fill(ctx context.Context, x *opening, m *Maps) (int, error) {
	if err := p.write(ctx, x, m); err != nil {
		x.close()
		return -1, err
	}
	return x.ns, nil
}

func (p *Pool) write(ctx context.Context, x *opening, m *Maps) error {
	if err := p.opener.begin(); err != nil {
		return err
	}
	defer p.opener.running.Done()
	t, err := p.opener.mechanism()
	if err != nil {
		return err
	}
	return p.opener.run(ctx, t, t.direct.fill, len(t.direct.blank), t.direct.len(), x, m)
}

// Ready is how many namespaces wait in the pool.
func (p *Pool) Ready() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// Close ends the refilling and closes what is ready. Namespaces that were handed out stay.
func (p *Pool) Close() error {
	p.once.Do(func() { close(p.quit) })
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.ready {
		p.ready[i].close()
	}
	p.ready = nil
	return nil
}
