package userns

import (
	"errors"
	"os"
	"testing"
)

// BenchmarkProbe is the part of a start that is spent on finding out who we are, on this machine.
func BenchmarkProbe(b *testing.B) {
	for _, mode := range []Mode{Auto, Single} {
		b.Run(string(mode), func(b *testing.B) {
			opts := ProbeOptions{Mode: mode}
			if _, err := Probe(opts); errors.Is(err, os.ErrNotExist) {
				missing(b, err.Error())
			}
			for b.Loop() {
				if _, err := Probe(opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPlanMaps plans an ordinary user's map.
func BenchmarkPlanMaps(b *testing.B) {
	f := alice()
	for b.Loop() {
		if _, err := PlanMaps(Request{Mode: Auto}, f); err != nil {
			b.Fatal(err)
		}
	}
}
