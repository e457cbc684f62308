package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"wolffia.dev/bench"
)

// compareLimits measures what a limit adds to a whole start. flags ask for it, in
// a place that bench/compare.sh made: v1 controllers delegated to the user, or a
// cgroup v2 subtree.
func compareLimits(s *settings) error {
	t := newTable()
	var list []*bench.Launch
	for name, v := range map[string]bench.Variant{"single": readOnly, "auto": subIDs} {
		plain := bench.WolffiaLaunch(name, s.wolffia, v, s.rootfs, "/bin/true")
		limited := *plain
		limited.Name = name + ", limited"
		limited.Args = append([]string{"run"}, strings.Fields(s.limits)...)
		limited.Args = append(limited.Args, plain.Args[1:]...)
		list = append(list, plain, &limited)
	}
	for _, l := range list {
		if l.Try(); l.Skip != "" {
			return fmt.Errorf("%s: %s", l.Name, l.Skip)
		}
	}
	order := rand.New(rand.NewPCG(7, 8))
	for range s.rounds {
		for _, i := range order.Perm(len(list)) {
			took, err := list[i].Time(nil)
			if err != nil {
				return err
			}
			t.add(list[i].Name, took)
			time.Sleep(pause)
		}
	}
	t.ratio("`wolffia run "+s.limits+"` against the same without, sub-ids", "auto, limited", "auto", 1.15)
	t.ratio("the same, single id, read-only root", "single, limited", "single", 1.15)
	return s.print(t, append([]string{"cpu: " + bench.CPU(), fmt.Sprintf("uid: %d", os.Geteuid()), fmt.Sprintf("rounds: %d", s.rounds)}, bench.Machine()...))
}
