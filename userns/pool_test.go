package userns

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The pool's namespaces are its callers' alone, and as many as are asked for.
func TestPool(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	p, err := o.NewPool(8)
	if err != nil {
		t.Fatal(err)
	}
	m := prepare(t, o)
	var all sync.Mutex
	held := map[uint64]int{}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 50 {
				fd, err := p.OpenRaw(t.Context(), m)
				if err != nil {
					t.Error(err)
					return
				}
				all.Lock()
				held[id(t, fd)] = fd
				all.Unlock()
			}
		})
	}
	callers.Wait()
	if len(held) != 200 {
		t.Errorf("%d namespaces for 200 openings", len(held))
	}
	for n, fd := range held {
		if n%50 == 0 {
			wantMaps(t, fd, m.UID, m.GID)
		}
		closeFD(&fd)
	}
	file, err := p.Open(t.Context(), m.UID, m.GID)
	if err != nil {
		t.Fatal(err)
	}
	look(t, int(file.Fd()), m.UID, m.GID)
	file.Close()
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := p.OpenRaw(t.Context(), m); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A pool keeps what it was asked to keep, and no processes.
func TestPoolIsBounded(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	openOften(t, o, 1)
	if err := o.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := openFDs()
	p, err := o.NewPool(5)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	each := fdsOfOne()
	if err := p.Fill(t.Context()); err != nil || p.Ready() != 5 {
		t.Errorf("%v; %d are ready", err, p.Ready())
	}
	time.Sleep(20 * time.Millisecond) // time for one too many
	for end := time.Now().Add(5 * time.Second); len(ownChildren(t)) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the last one is reaped behind the filling
	}
	if now := openFDs(); now != before+5*each {
		t.Errorf("%d fds for five namespaces, %d each", now-before, each)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); err != unix.ECHILD {
		t.Errorf("it keeps a process: %d, %v", pid, err)
	}
	for range 20 {
		fd, err := p.OpenRaw(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(&fd)
	}
}

// fdsOfOne are those of one namespace in a pool.
func fdsOfOne() int {
	if os.Geteuid() == 0 {
		return 3
	}
	return 4
}

// What a pool can't make is told to whoever asks, and tried again for the next one.
func TestPoolFailures(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	if _, err := o.NewPool(0); !strings.Contains(err.Error(), "at least one") {
		t.Errorf("a pool of none: %v", err)
	}
	m := prepare(t, o)
	o.fault = failing(actNamespace, unix.EMFILE)
	p, err := o.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var failure *OpenError
	for range 5 {
		if _, err := p.OpenRaw(t.Context(), m); !errors.As(err, &failure) || !errors.Is(err, unix.EMFILE) {
			t.Errorf("%v", err)
		}
	}
	bad := *m
	bad.uidText = []byte("nonsense\n")
	o2 := newOpener(t)
	defer o2.Close()
	p2, err := o2.NewPool(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p2.Close()
	if _, err := p2.OpenRaw(t.Context(), &bad); !errors.As(err, &failure) || failure.Name != "write uid_map" {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 { // it may be full, and then nothing has to be waited for
		if fd, err := p2.OpenRaw(ended, m); err == nil {
			closeFD(&fd)
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

// The refilling begins when a quarter has been taken: not before, and not when the pool is empty.
func TestPoolRefills(t *testing.T) {
	for size, quarter := range map[int]int{1: 1, 2: 1, 3: 1, 8: 2, 64: 16} {
		p := &Pool{size: size, ready: make([]opening, size), need: make(chan struct{}, 1)}
		for taken := 1; taken <= quarter; taken++ {
			if _, _, err := p.take(); err != nil {
				t.Fatal(err)
			}
			if woken := len(p.need) > 0; woken != (taken == quarter) {
				t.Errorf("%d of %d are taken, and the refilling is woken: %v", taken, size, woken)
			}
		}
	}
}

// What failed while the pool was refilled, and has passed, is nobody's error.
func TestPoolForgetsFailure(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	p, err := o.NewPool(4)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.put(newOpening(), unix.EMFILE)
	for range 20 {
		fd, err := p.OpenRaw(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(&fd)
	}
}

// Who waits for an empty pool is told of its end, and who comes later too, whatever the maps.
func TestPoolClosedWhileWaiting(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	p := &Pool{opener: o, size: 1, need: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})} // nobody refills it
	waiting := make(chan error, 5)
	for range cap(waiting) {
		go func() {
			_, err := p.OpenRaw(t.Context(), m)
			waiting <- err
		}()
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.OpenRaw(soon, m); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing is ready: %v", err)
	}
	close(p.done)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for range cap(waiting) {
		if err := <-waiting; !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	helped := *m
	helped.UIDWriter.Helper = "/nonexistent"
	for _, m := range []*Maps{m, &helped} {
		if _, err := p.OpenRaw(t.Context(), m); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := p.Fill(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Fill after Close: %v", err)
	}
}

// A user's ranges take the helpers, out of a pool too.
func TestPoolWithHelpers(t *testing.T) {
	defer leaks(t)()
	uid, gid := rangeMaps(t)
	o := newOpener(t)
	defer o.Close()
	p, err := o.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	file, err := p.Open(t.Context(), uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	look(t, int(file.Fd()), uid, gid)
	file.Close()
}

// The same maps are the same fd while somebody holds it.
func TestCache(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	c := o.NewCache()
	uid, gid := ownMaps()
	shared := make([]*Shared, 50)
	var callers sync.WaitGroup
	for i := range shared {
		callers.Go(func() {
			s, err := c.Open(t.Context(), uid, gid)
			if err != nil {
				t.Error(err)
			}
			shared[i] = s
		})
	}
	callers.Wait()
	first := shared[0].FD()
	look(t, first, uid, gid)
	for _, s := range shared {
		if s.FD() != first {
			t.Fatal("the same maps, and another fd")
		}
	}
	other := IDMap{{5, uid[0].Outside, 1}}
	s, err := c.Open(t.Context(), other, gid)
	if err != nil {
		t.Fatal(err)
	}
	if s.FD() == first || c.Len() != 2 {
		t.Errorf("other maps, and the same fd; %d are held", c.Len())
	}
	wantMaps(t, s.FD(), other, gid)
	g, err := c.Open(t.Context(), uid, IDMap{{5, gid[0].Outside, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if g.FD() == first {
		t.Error("another map of gids, and the same fd")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil || c.Len() != 1 {
		t.Errorf("%v; %d are held", err, c.Len())
	}
	before := id(t, first)
	for _, s := range shared[1:] {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if id(t, first) != before {
		t.Error("closed while it was held")
	}
	if err := shared[0].Close(); err != nil || c.Len() != 0 {
		t.Errorf("%v; %d are held", err, c.Len())
	}
	if _, err := ID(first); !errors.Is(err, unix.EBADF) {
		t.Errorf("the last reference didn't close it: %v", err)
	}
}

// A failure isn't kept, and one caller's end isn't another's.
func TestCacheFailures(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	c := o.NewCache()
	uid, gid := ownMaps()
	o.fault = failing(actNamespace, unix.EMFILE)
	if _, err := c.Open(t.Context(), uid, gid); !errors.Is(err, unix.EMFILE) || c.Len() != 0 {
		t.Errorf("%v; %d are held", err, c.Len())
	}
	o.fault = nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Open(ended, uid, gid); !errors.Is(err, context.Canceled) || c.Len() != 0 {
		t.Errorf("%v; %d are held", err, c.Len())
	}
	joinCancelled(t, c, uid, gid, func(e *entry, key string) { c.fill(ended, e, key, uid, gid) })
}

// Its maker's time ends while a helper runs: whoever waits doesn't get that error.
func TestCacheCancelledHelper(t *testing.T) {
	defer leaks(t)()
	uid, gid := rangeMaps(t)
	o := newOpener(t)
	defer o.Close()
	c := o.NewCache()
	facts, err := o.factsFor(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	joinCancelled(t, c, uid, gid, func(e *entry, key string) {
		good := facts.NewUIDMap
		facts.NewUIDMap.Path = script(t, "exec sleep 1000")
		time.AfterFunc(50*time.Millisecond, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			facts.NewUIDMap = good
		})
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		c.fill(soon, e, key, uid, gid)
	})
}

// joinCancelled waits for somebody else's opening, made by fill, which is cancelled.
func joinCancelled(t *testing.T, c *Cache, uid, gid IDMap, fill func(e *entry, key string)) {
	t.Helper()
	key := uid.String() + "/" + gid.String()
	e, _ := c.acquire(key)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Open(soon, uid, gid); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("our own context ends while another caller makes it: %v", err)
	}
	got := make(chan error)
	go func() {
		s, err := c.Open(t.Context(), uid, gid)
		if err == nil {
			err = s.Close()
		}
		got <- err
	}()
	time.Sleep(10 * time.Millisecond)
	fill(e, key)
	if err := <-got; err != nil {
		t.Errorf("another caller's context ended ours: %v", err)
	}
	if err := c.release(key, e); err != nil || c.Len() != 0 {
		t.Errorf("%v; %d are held", err, c.Len())
	}
}
