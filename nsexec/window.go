package nsexec

import (
	"context"
	"sync"
)

// window guards the dumpable flag of our memory among overlapping starts: many
// depend on it at a time, or one clears it. It is a sync.RWMutex whose waiting
// ends with a context. A start that wants to clear the flag goes before new ones
// that depend on it, or it might wait for ever.
type window struct {
	mu       sync.Mutex
	readers  int
	writer   bool
	waiting  int           // for writing
	released chan struct{} // closed at the next release, nil when nobody waits
}

func (w *window) rlock(ctx context.Context) error {
	return w.wait(ctx, func() bool {
		free := !w.writer && w.waiting == 0
		if free {
			w.readers++
		}
		return free
	})
}

func (w *window) lock(ctx context.Context) error {
	w.mu.Lock()
	w.waiting++
	w.mu.Unlock()
	err := w.wait(ctx, func() bool {
		free := !w.writer && w.readers == 0
		if free {
			w.writer = true
		}
		return free
	})
	w.release(func() { w.waiting-- })
	return err
}

func (w *window) runlock() { w.release(func() { w.readers-- }) }
func (w *window) unlock()  { w.release(func() { w.writer = false }) }

// wait tries take, again after every release.
func (w *window) wait(ctx context.Context, take func() bool) error {
	for {
		w.mu.Lock()
		if take() {
			w.mu.Unlock()
			return nil
		}
		if w.released == nil {
			w.released = make(chan struct{})
		}
		released := w.released
		w.mu.Unlock()
		select {
		case <-released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *window) release(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if w.released != nil {
		close(w.released)
		w.released = nil
	}
}
