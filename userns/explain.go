package userns

import (
	"fmt"
	"io"

	"wolffia.dev/nsexec"
)

// Explain prints the system calls of a mechanism, both lanes, without making them: the lists that an [Opener] of this
// machine executes. For maps that helpers write it is another list; deny is whether the caller lacks CAP_SETGID.
func Explain(w io.Writer, m Mechanism, helpers, deny bool) error {
	mk, err := newMaker(m)
	if err != nil {
		return err
	}
	defer mk.close()
	p := directProgram(mk.acts(), deny)
	if helpers {
		p = helperProgram(mk.acts(), deny)
	}
	fmt.Fprintf(w, "The parent's lane: %d steps.\n", p.len())
	n := 0
	for _, part := range [][]act{p.blank, p.fill, p.end} {
		for _, a := range part {
			n++
			explainStep(w, n, a.call, a.name, a.why, a.man)
		}
	}
	fmt.Fprintf(w, "\nThe child's lane: %s.\n", mk.life())
	for i, s := range mk.program() {
		explainStep(w, i+1, s.String(), s.Name, s.Why, s.ManPage())
	}
	return nil
}

func explainStep(w io.Writer, n int, call, name, why, man string) {
	if why != "" {
		why = ": " + why
	}
	fmt.Fprintf(w, "%3d  %s\n     %s%s  [%s]\n", n, call, name, why, man)
}

// life says what a child of the mechanism is, before its program is printed.
func (m *noopMaker) life() string { return "one step, executed in assembly; then it exits" }

func (m *noopMaker) program() nsexec.Program { return m.noops.Program() }

func (ptraceMaker) life() string { return "Go's fork and execve (syscall.ForkExec), in this order" }

// program is what syscall.forkAndExecInChild1 does for the child of ptraceMaker; it isn't executed by package nsexec.
func (ptraceMaker) program() nsexec.Program { return tracedProgram() }
