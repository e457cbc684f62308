package nsexec

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

func BenchmarkNoop(b *testing.B) {
	n, err := NewNoops(unix.CLONE_NEWUSER, false)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	b.ReportAllocs()
	for b.Loop() {
		c, err := n.Start()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Kill(); err != nil {
			b.Fatal(err)
		}
		if err := c.Reap(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
