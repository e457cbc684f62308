package bench

import "testing"

func TestSeries(t *testing.T) {
	for _, c := range []struct {
		s    Series
		want int64
	}{{nil, 0}, {Series{7}, 7}, {Series{9, 1, 5}, 5}, {Series{5, 9, 1, 2, 1000}, 5}} {
		if got := int64(c.s.Median()); got != c.want {
			t.Errorf("median of %v: %d, want %d", c.s, got, c.want)
		}
	}
}

// TestRatio: a disturbance that hits a round hits both, and the spread stays small.
func TestRatio(t *testing.T) {
	r := RatioOf(Series{20, 40, 200, 22}, Series{10, 20, 100, 11})
	if r.Value != 40.0/20 && r.Value != 22.0/11 || r.Low != 2 || r.High != 2 {
		t.Errorf("%+v", r)
	}
	if r := RatioOf(nil, Series{1}); r != (Ratio{}) {
		t.Errorf("nothing measured: %+v", r)
	}
}
