package userns

import (
	"context"
	"errors"
	"os"
	"sync"
)

// A Cache serves callers that need some namespace with given maps, and not one of their own: idmapped mounts. The same
// maps give the same fd, as long as somebody holds it. Whoever joins a namespace, or makes children in it, must not
// take it from a Cache: he would share it with strangers.
type Cache struct {
	opener *Opener
	mu     sync.Mutex
	held   map[string]*entry
}

// entry is one namespace and how many hold it, or wait for it.
type entry struct {
	ready     chan struct{} // closed when file or err is there
	file      *os.File
	err       error
	cancelled bool // err came from the end of its maker's context
	refs      int
}

// NewCache is an empty cache. The Opener must not be closed before the last Shared.
func (o *Opener) NewCache() *Cache {
	return &Cache{opener: o, held: map[string]*entry{}}
}

// Shared is one counted reference to a namespace of a Cache.
type Shared struct {
	cache *Cache
	key   string
	entry *entry
	once  sync.Once
}

// Open gives a reference to a namespace with these maps: one that is held already, or a new one. Callers that come
// while it is being made wait for it; if its maker's context ends, the next of them makes it. Errors are
// [Opener.Open]'s, and nothing of a failure is kept.
func (c *Cache) Open(ctx context.Context, uid, gid IDMap) (*Shared, error) {
	key := uid.String() + "/" + gid.String()
	for {
		e, first := c.acquire(key)
		if first {
			c.fill(ctx, e, key, uid, gid)
		}
		s := &Shared{cache: c, key: key, entry: e}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, errors.Join(&cancelledError{context.Cause(ctx)}, s.Close())
		}
		if e.err == nil {
			return s, nil
		}
		if err := s.Close(); err != nil {
			return nil, errors.Join(e.err, err)
		}
		if first || !e.cancelled {
			return nil, e.err
		}
	}
}

// acquire counts a reference; first is whoever has to make the namespace.
func (c *Cache) acquire(key string) (e *entry, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.held[key]
	if e == nil {
		e, first = &entry{ready: make(chan struct{})}, true
		c.held[key] = e
	}
	e.refs++
	return e, first
}

// fill makes an entry's namespace. A failed entry is given up at once, so that the next caller tries anew.
func (c *Cache) fill(ctx context.Context, e *entry, key string, uid, gid IDMap) {
	e.file, e.err = c.opener.Open(ctx, uid, gid)
	if e.err != nil {
		e.cancelled = ctx.Err() != nil
		c.mu.Lock()
		delete(c.held, key)
		c.mu.Unlock()
	}
	close(e.ready)
}

// FD is the namespace, lent until Close.
func (s *Shared) FD() int { return int(s.entry.file.Fd()) }

// Close gives the reference back. The last one closes the fd.
func (s *Shared) Close() (err error) {
	s.once.Do(func() { err = s.cache.release(s.key, s.entry) })
	return err
}

func (c *Cache) release(key string, e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refs--
	if e.refs > 0 {
		return nil
	}
	if c.held[key] == e {
		delete(c.held, key)
	}
	if e.file == nil {
		return nil
	}
	return e.file.Close()
}

// Len is how many namespaces the cache holds.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held)
}
