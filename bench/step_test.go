package bench

import (
	"strings"
	"testing"
	"time"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// BenchmarkStep is the median time of each step of a start, both lanes, as its
// own result cell says. The starts are those of the sub-benchmark "whole".
// Steps of the two lanes overlap, and a gate or a wait contains what it waits for.
func BenchmarkStep(b *testing.B) {
	root := rootfs(b)
	for _, mode := range mapModes(b) {
		plan, s := planOf(b, Variant{Map: mode}, root), nsexec.NewSpawner()
		steps := newStepTimes(plan)
		b.Run("map="+string(mode)+"/whole", func(b *testing.B) {
			for range b.N {
				report, err := Once(s, plan)
				if err != nil {
					b.Fatal(err)
				}
				steps.add(report)
			}
		})
		for i, name := range steps.names {
			b.Run("map="+string(mode)+"/"+name, func(b *testing.B) {
				if len(steps.times[i]) == 0 {
					b.Skip("this step was not reached, or never returned")
				}
				b.ReportMetric(float64(steps.times[i].Median().Nanoseconds()), "ns/op")
			})
		}
	}
}

// stepTimes collects the times of a plan's steps, host lane first.
type stepTimes struct {
	names []string
	times []Series
}

func newStepTimes(plan *container.Plan) *stepTimes {
	t := &stepTimes{}
	clean := strings.NewReplacer(" ", "_", "/", ".")
	for _, h := range plan.Host {
		t.names = append(t.names, "host:"+clean.Replace(h.Name))
	}
	for _, s := range plan.Child {
		t.names = append(t.names, "child:"+clean.Replace(s.Name))
	}
	t.times = make([]Series, len(t.names))
	return t
}

func (t *stepTimes) add(r *nsexec.Report) {
	for i, result := range append(append([]nsexec.Result{}, r.Host...), r.Child...) {
		if result.Ran {
			t.times[i] = append(t.times[i], r.Clock.Duration(result.End-result.Start)+time.Nanosecond) // never 0, which isn't printed
		}
	}
}
