package bench

import (
	"errors"
	"testing"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// BenchmarkStart is one start and wait of /bin/true in a program that runs
// already, the plan being made. by=floor is the floor's loop.
func BenchmarkStart(b *testing.B) {
	root := rootfs(b)
	for _, mode := range mapModes(b) {
		for _, readOnly := range []bool{false, true} {
			for _, hostNet := range []bool{false, true} {
				v := Variant{Map: mode, ReadOnly: readOnly, HostNet: hostNet}
				b.Run("by=wolffia/"+v.String()+"/heap=0", func(b *testing.B) { startInProcess(b, v, root) })
				b.Run("by=floor/"+v.String()+"/heap=0", func(b *testing.B) { startFloor(b, v, root) })
			}
		}
		v := Variant{Map: mode}
		b.Run("by=wolffia/"+v.String()+"/heap=1GiB", func(b *testing.B) {
			defer BigHeap(1 << 30)()
			startInProcess(b, v, root)
		})
	}
}

// startInProcess times the starts alone, after a few that don't count.
func startInProcess(b *testing.B, v Variant, root string) {
	plan := planOf(b, v, root)
	s := nsexec.NewSpawner()
	if _, err := Loop(s, plan, 3); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	_, err := Loop(s, plan, b.N)
	b.StopTimer() // giving a large heap back takes longer than a start
	if err != nil {
		b.Fatal(err)
	}
}

// startFloor reports the floor's own figure: its process's start doesn't count.
func startFloor(b *testing.B, v Variant, root string) {
	f := floor(b, v, root, "/bin/true")
	b.ResetTimer()
	took, err := f.Loop(b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
}

func planOf(b *testing.B, v Variant, root string) *container.Plan {
	b.Helper()
	plan, err := v.Plan(root, "/bin/true")
	if errors.Is(err, errors.ErrUnsupported) {
		mustRun(b, "%v", err)
	}
	if err != nil {
		b.Fatal(err)
	}
	return plan
}

// BenchmarkPhase takes a start apart: looking at the machine, planning, the
// start until execve, and the container's own life until it is reaped.
func BenchmarkPhase(b *testing.B) {
	root := rootfs(b)
	for _, mode := range mapModes(b) {
		spec, o := Variant{Map: mode}.Request(root, "/bin/true")
		facts, err := container.Probe(spec, o)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("probe/map="+string(mode), func(b *testing.B) {
			for b.Loop() {
				if _, err := container.Probe(spec, o); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("compile/map="+string(mode), func(b *testing.B) {
			for b.Loop() {
				if _, err := container.Compile(spec, o, facts); err != nil {
					b.Fatal(err)
				}
			}
		})
		plan := planOf(b, Variant{Map: mode}, root)
		b.Run("start/map="+string(mode), func(b *testing.B) { half(b, plan, true) })
		b.Run("wait/map="+string(mode), func(b *testing.B) { half(b, plan, false) })
	}
}

// half times the start or the wait of b.N containers.
func half(b *testing.B, plan *container.Plan, start bool) {
	s := nsexec.NewSpawner()
	for range b.N {
		if !start {
			b.StopTimer()
		}
		c, err := container.Start(b.Context(), s, plan)
		if start {
			b.StopTimer()
		} else {
			b.StartTimer()
		}
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkMany is a thousand containers in one process. It reports the time of
// the last hundred against the first and what grew, and fails if anything is left.
func BenchmarkMany(b *testing.B) {
	root := rootfs(b)
	for _, mode := range mapModes(b) {
		b.Run("map="+string(mode), func(b *testing.B) {
			plan, s := planOf(b, Variant{Map: mode}, root), nsexec.NewSpawner()
			for range b.N {
				r, err := Many(s, plan, 1000)
				if err != nil {
					b.Fatal(err)
				}
				if left := r.Left(); left != "" {
					b.Fatalf("left behind: %s", left)
				}
				b.ReportMetric(float64(r.Last)/float64(r.First), "last/first")
				b.ReportMetric(float64(r.After.FDs-r.Before.FDs), "fds")
				b.ReportMetric(float64(r.After.RSS-r.Before.RSS), "RSS-B")
			}
		})
	}
}

// TestBigHeap: the memory is really there, and really given back.
func TestBigHeap(t *testing.T) {
	before, err := OwnFootprint()
	if err != nil {
		t.Fatal(err)
	}
	free := BigHeap(64 << 20)
	with, _ := OwnFootprint()
	free()
	after, _ := OwnFootprint()
	given := with.RSS - after.RSS // the race detector keeps its own memory of it, as large again
	if with.RSS-before.RSS < 60<<20 || given < 48<<20 {
		t.Errorf("RSS before %d, with 64 MiB %d, after %d", before.RSS, with.RSS, after.RSS)
	}
}
