package cgroup

import "testing"

// What a limit adds to a start before the child is made: looking around, once
// for the limits that are asked for, and planning.
func BenchmarkProbe(b *testing.B) {
	l, err := Flags{Memory: "64m", CPUs: "0.5", Pids: "20"}.Limits()
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range []struct {
		name   string
		limits Limits
	}{{"memory", l[:1]}, {"memory+cpu+pids", l}} {
		b.Run(v.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Probe(ProbeOptions{Limits: v.limits}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	l, err := Flags{Memory: "64m", CPUs: "0.5", Pids: "20"}.Limits()
	if err != nil {
		b.Fatal(err)
	}
	f, err := Probe(ProbeOptions{Limits: l})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Compile(Wish{Limits: l, Mode: Try}, f); err != nil {
			b.Fatal(err)
		}
	}
}

// All of it: looking, planning, the folders with a limit in each, reading back
// and removing, where we may. A plan is for one start.
func BenchmarkLimit(b *testing.B) {
	for _, v := range []struct {
		name  string
		flags Flags
	}{{"memory", Flags{Memory: "64m"}}, {"memory+cpu+pids", Flags{Memory: "64m", CPUs: "0.5", Pids: "20"}}} {
		b.Run(v.name, func(b *testing.B) {
			l, err := v.flags.Limits()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				limit(b, l)
			}
		})
	}
}

func limit(b *testing.B, l Limits) {
	f, err := Probe(ProbeOptions{Limits: l})
	if err != nil {
		b.Fatal(err)
	}
	p, err := Compile(Wish{Limits: l}, f)
	if err != nil {
		b.Skip("missing: a cgroup that is delegated to us: ", err)
	}
	g, err := Create(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
}
