package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/userns"
)

// fdWays are all of them, by the names of the benchmarks.
func fdWays(t testing.TB) map[string]func() (*FDWay, error) {
	ways := map[string]func() (*FDWay, error){
		"floor":          func() (*FDWay, error) { return FDFloor(t.TempDir()) },
		"maps":           MapsAlone,
		"pool":           func() (*FDWay, error) { return FullPool(64) },
		"pool-sustained": func() (*FDWay, error) { return Sustained(64) },
		"helpers":        OpenedByHelpers,
	}
	for _, m := range userns.Mechanisms() {
		ways[string(m)] = func() (*FDWay, error) { return FilesBy(m) }
		ways[string(m)+"-raw"] = func() (*FDWay, error) { return OpenedBy(m) }
	}
	return ways
}

// fdWay prepares one, or skips it by name.
func fdWay(t testing.TB, name string) *FDWay {
	t.Helper()
	w, err := fdWays(t)[name]()
	if errors.Is(err, ErrNoCompiler) || name == "helpers" && err != nil && os.Geteuid() == 0 {
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

var fdNames = []string{"ptrace", "ptrace-raw", "fork", "fork-raw", "vm", "vm-raw", "floor", "maps", "pool", "pool-sustained", "helpers"}

// Every way opens namespaces; that their maps are right is tested in package userns.
func TestUsernsFDWays(t *testing.T) {
	for _, name := range fdNames {
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
	for _, name := range fdNames {
		for _, n := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/concurrent=%d", name, n), func(b *testing.B) { runFDWay(b, fdWay(b, name), n) })
		}
	}
	for _, name := range []string{"vm-raw", "fork-raw", "ptrace-raw"} {
		b.Run(name+"/heap=1GiB/concurrent=1", func(b *testing.B) {
			heap := touched(1 << 30)
			runFDWay(b, fdWay(b, name), 1)
			runtime.KeepAlive(heap)
		})
		b.Run(name+"/held=1000/concurrent=1", func(b *testing.B) {
			defer hold(b, 1000)()
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

// touched is a heap of that size, every page of it written.
func touched(size int) []byte {
	heap := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		heap[i] = 1
	}
	return heap
}

// hold opens n user namespaces and keeps them.
func hold(b *testing.B, n int) (release func()) {
	b.Helper()
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(n)+100 {
		mustRun(b, "RLIMIT_NOFILE is %d: too low to hold %d fds", limit.Cur, n)
	}
	o, err := userns.NewOpener()
	if err != nil {
		b.Fatal(err)
	}
	maps, err := o.Prepare(FDMaps())
	if err != nil {
		b.Fatal(err)
	}
	fds := make([]int, n)
	if err := o.OpenMany(b.Context(), maps, fds); err != nil {
		b.Fatal(err)
	}
	return func() {
		closeFDs(fds)
		o.Close()
	}
}

// The names of containerd's own benchmarks (core/mount), so that people can compare. Its one op is one batch of 1 or 10.
func BenchmarkBatchRunGetUsernsFD_Concurrent1(b *testing.B)  { batchRun(b, 1) }
func BenchmarkBatchRunGetUsernsFD_Concurrent10(b *testing.B) { batchRun(b, 10) }

func batchRun(b *testing.B, n int) {
	for _, m := range userns.Mechanisms() {
		b.Run(string(m), func(b *testing.B) { runFDWay(b, fdWay(b, string(m)), n) })
	}
}
