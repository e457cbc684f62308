package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"wolffia.dev/bench"
	"wolffia.dev/userns"
)

// fdSerie is one line of the comparison of user namespace fds: so many batches a
// round, of n at once.
type fdSerie struct {
	name    string
	batches int
	run     func(batches int) (time.Duration, error)
}

// compareFDs measures every way to open user namespaces, interleaved: as root
// with three extents, else with the own ids.
func compareFDs(s *settings) error {
	t := newTable()
	series, end, err := fdSeries(s, t)
	defer end()
	if err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(5, 6))
	for range s.rounds {
		for _, i := range order.Perm(len(series)) {
			f := series[i]
			took, err := f.run(f.batches)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			t.add(f.name, took/time.Duration(f.batches))
		}
	}
	t.ratio("vm against ptrace, one at a time", "vm 1", "ptrace 1", 1.0/8)
	t.ratio("vm against ptrace, ten at once", "vm 10", "ptrace 10", 1.0/20)
	t.ratio("vm against the floor in C, one at a time", "vm-raw 1", "floor 1", 1.15)
	t.ratio("vm against the floor in C, ten at once", "vm-raw 10", "floor 10", 1.15)
	t.ratio("out of a full pool, against writing the maps alone", "pool 1", "maps 1", 1.3)
	t.ratio("vm with a 1 GiB heap against an empty one", "vm-raw, 1 GiB heap", "vm-raw, alone", 1.1)
	t.ratio("vm with 1,000 held against none", "vm-raw, 1,000 held", "vm-raw, alone", 1.1)
	t.note("the raw forms: vm against ptrace, one at a time", "vm-raw 1", "ptrace-raw 1")
	t.note("the raw forms, ten at once", "vm-raw 10", "ptrace-raw 10")
	t.note("fork against ptrace", "fork-raw 1", "ptrace-raw 1")
	t.note("fork with a 1 GiB heap against an empty one", "fork-raw, 1 GiB heap", "fork-raw 1")
	t.note("out of a pool that refills meanwhile, against vm", "pool-sustained 1", "vm-raw 1")
	t.note("by newuidmap and newgidmap, against vm with maps of our own", "helpers 1", "vm-raw 1")
	return s.print(t, append([]string{"cpu: " + bench.CPU(), fmt.Sprintf("uid: %d", os.Geteuid()), fmt.Sprintf("rounds: %d", s.rounds)}, bench.Machine()...))
}

// fdSeries prepares all of them; what can't be had is skipped by name.
func fdSeries(s *settings, t *table) (series []fdSerie, end func(), err error) {
	var closers []func()
	end = func() {
		for _, c := range closers {
			c()
		}
	}
	dir, err := os.MkdirTemp("", "wolffia-bench.")
	if err != nil {
		return nil, end, err
	}
	closers = append(closers, func() { os.RemoveAll(dir) })
	for _, name := range bench.FDNames() {
		w, err := bench.NewFDWay(name, dir)
		if errors.Is(err, bench.ErrNoCompiler) || errors.Is(err, bench.ErrNoHelpers) {
			for _, n := range []string{" 1", " 10"} {
				t.skipped[name+n] = err.Error()
			}
			continue
		}
		if err != nil {
			return nil, end, err
		}
		closers = append(closers, func() { w.Close() })
		for _, n := range []int{1, 10} {
			series = append(series, fdSerie{fmt.Sprintf("%s %d", name, n), batchesOf(name, n), func(b int) (time.Duration, error) { return w.Run(b, n) }})
		}
	}
	for _, v := range []struct {
		name string
		heap int
		held string
		ways []string
	}{{", alone", 0, "0", []string{"vm-raw"}}, {", 1 GiB heap", fullHeap, "0", []string{"vm-raw", "fork-raw"}}, {", 1,000 held", 0, "1000", []string{"vm-raw"}}} {
		w, err := startWorker(s, v.heap, "-fds", "-held", v.held)
		if err != nil {
			return nil, end, err
		}
		closers = append(closers, w.end)
		for _, way := range v.ways {
			series = append(series, fdSerie{way + v.name, batchesOf(way, 1), func(b int) (time.Duration, error) { return w.ask(way, b) }})
		}
	}
	return series, end, nil
}

// batchesOf makes a round of each way take a few milliseconds.
func batchesOf(name string, n int) int {
	switch name {
	case "ptrace", "ptrace-raw", "fork", "fork-raw", "helpers":
		return max(10/n, 2)
	}
	return max(100/n, 10)
}

// serveFDs is a worker that opens user namespaces and holds some all the time.
func serveFDs(held int) error {
	release, err := bench.HoldFDs(held)
	if err != nil {
		return err
	}
	defer release()
	ways := map[string]*bench.FDWay{}
	for _, m := range []userns.Mechanism{userns.VM, userns.Fork} {
		w, err := bench.OpenedBy(m)
		if err != nil {
			return err
		}
		defer w.Close()
		ways[string(m)+"-raw"] = w
	}
	return answer(func(what string, n int) (time.Duration, error) { return ways[what].Run(n, 1) })
}
