package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// Once starts a container and waits for its end. It must exit with 0.
func Once(s *nsexec.Spawner, plan *container.Plan) (*nsexec.Report, error) {
	c, err := container.Start(context.Background(), s, plan)
	if err != nil {
		return nil, err
	}
	status, err := c.Wait()
	if err == nil && status.ExitCode() != 0 {
		err = fmt.Errorf("bench: the container ended with %s", status)
	}
	return c.Report, err
}

// Loop starts n containers one after the other and gives the time of all.
func Loop(s *nsexec.Spawner, plan *container.Plan, n int) (time.Duration, error) {
	start := time.Now()
	for range n {
		if _, err := Once(s, plan); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// A ManyResult is what many starts in one process did to their time and to the process.
type ManyResult struct {
	First, Last   time.Duration // of the first and of the last hundred
	Before, After Footprint
}

// Many starts and reaps n containers, at least 200, in one process. Ten more
// come before them, so that what is allocated once is there.
func Many(s *nsexec.Spawner, plan *container.Plan, n int) (ManyResult, error) {
	var r ManyResult
	if _, err := Loop(s, plan, 10); err != nil {
		return r, err
	}
	var err error
	if r.Before, err = settled(); err != nil {
		return r, err
	}
	if r.First, err = Loop(s, plan, 100); err != nil {
		return r, err
	}
	if _, err = Loop(s, plan, n-200); err != nil {
		return r, err
	}
	if r.Last, err = Loop(s, plan, 100); err != nil {
		return r, err
	}
	r.After, err = settled()
	return r, err
}

// settled is the footprint without garbage.
func settled() (Footprint, error) {
	debug.FreeOSMemory()
	return OwnFootprint()
}

// Left describes what stayed behind, "" for nothing. Memory may differ by what
// the run-time keeps for itself: 4 MiB.
func (r ManyResult) Left() string {
	b, a := r.Before, r.After
	left := ""
	for _, x := range []struct {
		what          string
		before, after int
	}{{"fds", b.FDs, a.FDs}, {"children", b.Children, a.Children}, {"mounts", b.Mounts, a.Mounts}} {
		if x.after > x.before {
			left += fmt.Sprintf("%d %s (%d before) ", x.after, x.what, x.before)
		}
	}
	if a.RSS-b.RSS > 4<<20 {
		left += fmt.Sprintf("%d KiB of memory (%d before) ", a.RSS>>10, b.RSS>>10)
	}
	return left
}

// BigHeap allocates and touches so many bytes, as a program with much data has
// them. The returned function gives them back.
func BigHeap(bytes int) (free func()) {
	heap := make([]byte, bytes)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	return func() {
		runtime.KeepAlive(heap)
		heap = nil
		debug.FreeOSMemory()
	}
}
