package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The experiment of ProveMemory, in bytes.
const (
	proofLimit = 64 << 20
	proofTouch = 200 << 20
	proofLess  = 32 << 20
)

// Proof is a memory limit put to the test: a program that touches more than it
// was given, and one that touches less.
type Proof struct {
	Limit   int64 `json:"limit_bytes"`
	Touched int64 `json:"touched_bytes"`
	Less    int64 `json:"less_bytes"`
	Over    Ran   `json:"over"`  // the program that touched Touched
	Under   Ran   `json:"under"` // the one that touched Less
}

// ProveMemory runs both. An error is a container that wasn't started: one whose
// limit was refused.
func ProveMemory(ctx context.Context, run Runner) (*Proof, error) {
	p := &Proof{Limit: proofLimit, Touched: proofTouch, Less: proofLess}
	var err1, err2 error
	p.Over, err1 = run(ctx, RunOptions{Memory: proofLimit, Args: toucher(proofTouch)})
	if err1 == nil {
		p.Under, err2 = run(ctx, RunOptions{Memory: proofLimit, Args: toucher(proofLess)})
	}
	return p, errors.Join(err1, err2)
}

// toucher is a program that touches that much memory: dd reads it at once, from
// zeros, into one buffer.
func toucher(bytes int64) []string {
	return []string{"dd", "if=/dev/zero", "of=/dev/null", "count=1", fmt.Sprintf("bs=%d", bytes), "status=none"}
}

// Holds tells that the limit was in force: the kernel ended the one program, and
// the other ended well.
func (p *Proof) Holds() bool {
	return p.Over.ExitCode == 137 && p.Over.OOMKills > 0 && p.Under.ExitCode == 0
}

// Write prints both numbers and what came of them.
func (p *Proof) Write(w io.Writer) {
	fmt.Fprintf(w, "limit %d MiB, touched %d MiB: exit %d%s\n", p.Limit>>20, p.Touched>>20, p.Over.ExitCode, p.Over.text())
	fmt.Fprintf(w, "limit %d MiB, touched %d MiB: exit %d%s\n", p.Limit>>20, p.Less>>20, p.Under.ExitCode, p.Under.text())
	if p.Holds() {
		fmt.Fprintln(w, "memory limits: in force")
		return
	}
	fmt.Fprintln(w, "memory limits: NOT in force; this is a bug, as a limit that isn't should have been refused")
}

func (r Ran) text() string {
	text := ""
	if r.OOMKills > 0 {
		text += fmt.Sprintf(", killed by the kernel for its memory (%d)", r.OOMKills)
	}
	if r.Limit > 0 {
		text += fmt.Sprintf(", memory.max read back %d", r.Limit)
	}
	if r.Peak > 0 {
		text += fmt.Sprintf(", peak %d", r.Peak)
	}
	return text
}
