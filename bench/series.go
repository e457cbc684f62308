package bench

import (
	"slices"
	"time"
)

// A Series is the times of one thing, one for each round of a run in which
// everything else was measured too.
type Series []time.Duration

// Median is the middle of the series, 0 for an empty one.
func (s Series) Median() time.Duration { return quantile(s, 0.5) }

// A Ratio compares two series of the same run.
type Ratio struct {
	Value     float64 // ratio of the medians
	Low, High float64 // quartiles of the ratios within a round
}

// RatioOf is a / b. Rounds are compared one by one for the spread, since what
// disturbs a round disturbs both.
func RatioOf(a, b Series) Ratio {
	n := min(len(a), len(b))
	if n == 0 {
		return Ratio{}
	}
	rounds := make([]float64, n)
	for i := range n {
		rounds[i] = float64(a[i]) / float64(b[i])
	}
	return Ratio{float64(a.Median()) / float64(b.Median()), quantile(rounds, 0.25), quantile(rounds, 0.75)}
}

// quantile is the nearest-rank quantile.
func quantile[T ~int64 | ~float64](list []T, q float64) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
