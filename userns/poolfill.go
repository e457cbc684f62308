package userns

import "context"

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
