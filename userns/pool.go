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

// refill makes namespaces until the pool is full or one fails, and then sleeps until it is needed again.
func (p *Pool) refill() {
	defer close(p.done)
	for {
		for p.wants() {
			x, err := p.make()
			p.put(x, err)
		}
		if err := p.opener.Settle(context.Background()); err != nil { // for a pool keeps no process
			p.put(newOpening(), err)
		}
		select {
		case <-p.need:
		case <-p.quit:
			return
		}
	}
}

// wants tells whether another namespace is to be made now.
func (p *Pool) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended() && len(p.ready) < p.size && p.failure == nil
}

// ended tells that Close was called.
func (p *Pool) ended() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

func (p *Pool) put(x opening, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failure = err
	} else {
		p.ready = append(p.ready, x)
	}
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// take gives a namespace; or the failure that keeps the pool empty; or, if there is neither, news to wait for. It
// forgets an earlier failure, whose cause may have gone: the refilling tries again.
func (p *Pool) take() (x opening, news chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.ready) - 1
	if last < p.size-p.size/4-1 {
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

// wake has the refilling goroutine look again.
func (p *Pool) wake() {
	select {
	case p.need <- struct{}{}:
	default:
	}
}

// wait is closed at the next put. Under the lock.
func (p *Pool) wait() chan struct{} {
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return p.news
}

// Fill waits until the pool is full; the error is that of the first namespace that can't be made.
func (p *Pool) Fill(ctx context.Context) error {
	for {
		news, err := p.missing()
		if news == nil {
			return err
		}
		if err := p.await(ctx, news); err != nil {
			return err
		}
	}
}

// missing is news to wait for while the pool isn't full.
func (p *Pool) missing() (chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.failure
	p.failure = nil
	if err != nil || len(p.ready) == p.size {
		return nil, err
	}
	p.wake()
	return p.wait(), nil
}

// await waits for news, the context's end or the pool's.
func (p *Pool) await(ctx context.Context, news chan struct{}) error {
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return &cancelledError{context.Cause(ctx)}
	case <-p.done:
		return errPoolClosed
	}
}

func (p *Pool) make() (opening, error) {
	if err := p.opener.begin(); err != nil {
		return newOpening(), err
	}
	defer p.opener.running.Done()
	for {
		t, err := p.opener.mechanism()
		if err != nil {
			return newOpening(), err
		}
		x, err := p.blank(t)
		if exhausted(err) && p.opener.settled(context.Background()) {
			x, err = p.blank(t)
		}
		if err == nil || !p.opener.passOver(t, err) {
			return x, err
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

var errPoolClosed = fmt.Errorf("userns: the Pool is closed: %w", os.ErrClosed)

func (p *Pool) fill(ctx context.Context, x *opening, m *Maps) (int, error) {
	if err := p.write(ctx, x, m); err != nil {
		x.close()
		return -1, err
	}
	x.closeMaps()
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
