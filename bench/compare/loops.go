package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"wolffia.dev/bench"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// loops times starts inside a running program against the floor's loop, and
// with a full heap against an empty one.
func loops(s *settings, t *table) error {
	series, end, err := loopSeries(s, t)
	defer end()
	if err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(3, 4))
	for range max(s.rounds/5, 3) {
		for _, i := range order.Perm(len(series)) {
			l := series[i]
			took, err := l.loop(s.loop)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			t.add(l.name, took/time.Duration(s.loop))
		}
	}
	for _, mode := range []userns.Mode{userns.Auto, userns.Single} {
		m := string(mode)
		t.ratio(fmt.Sprintf("%d starts in a running Go program, map=%s, against the floor's loop", s.loop, m), "loop "+m, "floor loop "+m, 1.25)
	}
	for _, mode := range []userns.Mode{userns.Auto, userns.Single} {
		m := string(mode)
		t.ratio("the same with a 1 GiB heap against an empty one, map="+m, "loop "+m+" 1 GiB", "loop "+m, 1.1)
	}
	return nil
}

type loopSerie struct {
	name string
	loop func(n int) (time.Duration, error)
}

const fullHeap = 1 << 10 // MiB

// loopSeries starts the workers and compiles the floors.
func loopSeries(s *settings, t *table) (series []loopSerie, end func(), err error) {
	var workers []*worker
	end = func() {
		for _, w := range workers {
			w.end()
		}
	}
	for _, heap := range []int{0, fullHeap} {
		w, err := startWorker(s, heap)
		if err != nil {
			return nil, end, err
		}
		workers = append(workers, w)
		for _, mode := range []userns.Mode{userns.Auto, userns.Single} {
			name := "loop " + string(mode)
			if heap > 0 {
				name += " 1 GiB"
			}
			series = append(series, loopSerie{name, func(n int) (time.Duration, error) { return w.loop(mode, n) }})
		}
	}
	for _, v := range []bench.Variant{subIDs, singleID} {
		name := "floor loop " + string(v.Map)
		f, err := buildFloor(s, name, v, false)
		if err != nil {
			t.skipped[name] = err.Error()
			continue
		}
		series = append(series, loopSerie{name, f.Loop})
	}
	return series, end, nil
}

// many starts a thousand containers in this process.
func many(s *settings, t *table) error {
	if s.many < 200 {
		return nil
	}
	for _, v := range []bench.Variant{subIDs, singleID} {
		plan, err := v.Plan(s.rootfs, "/bin/true")
		if err != nil {
			return err
		}
		r, err := bench.Many(nsexec.NewSpawner(), plan, s.many)
		if err != nil {
			return err
		}
		t.value(fmt.Sprintf("%d containers in one process, map=%s: last hundred against the first", s.many, v.Map),
			float64(r.Last)/float64(r.First), 1.2, "×", fmt.Sprintf("fds %d → %d, children %d → %d, mounts %d → %d, RSS %d → %d KiB",
				r.Before.FDs, r.After.FDs, r.Before.Children, r.After.Children, r.Before.Mounts, r.After.Mounts,
				r.Before.RSS>>10, r.After.RSS>>10), r.Left() == "")
	}
	return nil
}
