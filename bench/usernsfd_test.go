package bench

import (
	"errors"
	"fmt"
	"testing"

	"wolffia.dev/userns"
)

// fdWay prepares one, or skips it by name.
func fdWay(t testing.TB, name string) *FDWay {
	t.Helper()
	w, err := NewFDWay(name, t.TempDir())
	if errors.Is(err, ErrNoCompiler) || errors.Is(err, ErrNoHelpers) {
		skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Every way opens namespaces; that their maps are right is tested in package userns.
func TestUsernsFDWays(t *testing.T) {
	for _, name := range FDNames() {
		t.Run(name, func(t *testing.T) {
			if took, err := fdWay(t, name).Run(2, 3); err != nil || took <= 0 {
				t.Errorf("%v, %v", took, err)
			}
		})
	}
}

// BenchmarkUsernsFD: one op is one batch of 1 or 10 user namespaces, opened and closed. The time is that of the
// batches alone.
func BenchmarkUsernsFD(b *testing.B) {
	for _, name := range FDNames() {
		for _, n := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/concurrent=%d", name, n), func(b *testing.B) { runFDWay(b, fdWay(b, name), n) })
		}
	}
	for _, name := range []string{"vm-raw", "fork-raw", "ptrace-raw"} {
		b.Run(name+"/heap=1GiB/concurrent=1", func(b *testing.B) {
			defer BigHeap(1 << 30)()
			runFDWay(b, fdWay(b, name), 1)
		})
		b.Run(name+"/held=1000/concurrent=1", func(b *testing.B) {
			release, err := HoldFDs(1000)
			if err != nil {
				b.Fatal(err)
			}
			defer release()
			runFDWay(b, fdWay(b, name), 1)
		})
	}
}

func runFDWay(b *testing.B, w *FDWay, n int) {
	b.ReportAllocs()
	b.ResetTimer()
	took, err := w.Run(b.N, n)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
}

// The names of containerd's own benchmarks (core/mount), so that people can compare. Its one op is one batch of 1 or 10.
func BenchmarkBatchRunGetUsernsFD_Concurrent1(b *testing.B)  { batchRun(b, 1) }
func BenchmarkBatchRunGetUsernsFD_Concurrent10(b *testing.B) { batchRun(b, 10) }

func batchRun(b *testing.B, n int) {
	for _, m := range userns.Mechanisms() {
		b.Run(string(m), func(b *testing.B) { runFDWay(b, fdWay(b, string(m)), n) })
	}
}
