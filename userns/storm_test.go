package userns

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An Opener that is closed while others open ends all of it: no fd, no child, and a clear error for who comes later.
func TestCloseWhileOpening(t *testing.T) {
	defer leaks(t)()
	for _, mechanism := range Mechanisms() {
		for range 20 {
			o := newOpener(t, Using(mechanism))
			m := prepare(t, o)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := openUntilRefused(o, m); !errors.Is(err, os.ErrClosed) {
						t.Errorf("%s: %v", mechanism, err)
					}
				})
			}
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			if err := o.Close(); err != nil {
				t.Error(err)
			}
			all.Wait()
		}
	}
}

func openUntilRefused(o *Opener, m *Maps) error {
	for {
		fd, err := o.OpenRaw(context.Background(), m)
		if err != nil {
			return err
		}
		closeFD(&fd)
	}
}

// Openings of all kinds from many goroutines, each with a moment's time, while the limit of fds goes up and down: what
// succeeds is a user namespace, what fails says why, and nothing is left.
func TestOpenStorm(t *testing.T) { again(t, "TestInnerStorm") }

func TestInnerStorm(t *testing.T) {
	inner(t)
	defer leaks(t)()
	quiet := jitterFiles(t)
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		p, err := o.NewPool(5)
		if err != nil {
			t.Fatal(err)
		}
		storm := &stormer{o, p, o.NewCache(), prepare(t, o)}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 60 {
					storm.open(t)
				}
			})
		}
		all.Wait()
		if err := errors.Join(p.Close(), o.Close()); err != nil || storm.cache.Len() != 0 {
			t.Errorf("%s: %v; %d are held", mechanism, err, storm.cache.Len())
		}
	}
	quiet()
}

// jitterFiles changes RLIMIT_NOFILE until the returned function is called.
func jitterFiles(t *testing.T) func() {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan bool), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil)
				return
			case <-time.After(time.Millisecond):
				unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(20 + rand.IntN(100)), Max: old.Max}, nil)
			}
		}
	}()
	return func() {
		stop <- true
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type stormer struct {
	opener *Opener
	pool   *Pool
	cache  *Cache
	maps   *Maps
}

// open is one call out of five, chosen by chance.
func (s *stormer) open(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
	defer cancel()
	fds := make([]int, rand.IntN(20))
	var err error
	switch rand.IntN(4) {
	case 0:
		err = s.opener.OpenMany(ctx, s.maps, fds)
	case 1:
		fds = []int{-1}
		fds[0], err = s.pool.OpenRaw(ctx, s.maps)
	case 2:
		fds = nil
		var shared *Shared
		if shared, err = s.cache.Open(ctx, s.maps.UID, s.maps.GID); err == nil {
			wantUserns(t, shared.FD())
			err = shared.Close()
		}
	case 3:
		fds, err = nil, s.opener.Settle(ctx)
	}
	if err != nil && !errors.Is(err, unix.EMFILE) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for i := range fds {
		if err == nil {
			wantUserns(t, fds[i])
		} else if fds[i] != -1 {
			t.Errorf("fd %d beside %v", fds[i], err)
		}
		closeFD(&fds[i])
	}
}

func wantUserns(t *testing.T, fd int) {
	t.Helper()
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWUSER {
		t.Errorf("fd %d is of type %#x, %v", fd, kind, err)
	}
}
