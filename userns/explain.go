package userns

import (
	"fmt"
	"io"
	"strings"

	"wolffia.dev/nsexec"
)

// ExplainNames are what [Explain] explains.
func ExplainNames() []string {
	names := []string{"pool"}
	for _, m := range Mechanisms() {
		names = append(names, string(m))
	}
	return names
}

// Explain prints the system calls by which a mechanism, or the pool, opens a user namespace here, and makes none of
// them: the lists that an [Opener] and a [Pool] execute. privileged is a caller with CAP_SETGID, who needn't deny
// setgroups(2).
func Explain(w io.Writer, name string, privileged bool) error {
	mechanism := Mechanism(name)
	if name == "pool" {
		mechanism = VM
	}
	mk, err := newMaker(mechanism)
	if err != nil {
		return err
	}
	defer mk.close()
	direct, helped := directProgram(mk.acts(), !privileged), helperProgram(mk.acts(), !privileged)
	e := &explainer{w: w}
	if name == "pool" {
		e.part("In advance, until the pool is full, with the mechanism vm", direct.blank, direct.end)
		e.part("For each request, with maps that we write ourselves", direct.fill)
	} else {
		e.part("The parent's lane, for maps that we write ourselves", direct.blank, direct.fill, direct.end)
		e.part("The parent's lane, for maps that newuidmap and newgidmap write", helped.blank, helped.fill, helped.end)
	}
	e.child(mk)
	if note := mk.note(); note != "" {
		e.print("\nnote: %s\n", note)
	}
	return e.err
}

type explainer struct {
	w   io.Writer
	err error
}

func (e *explainer) print(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

func (e *explainer) part(title string, lists ...[]act) {
	e.print("%s:\n", title)
	n := 0
	for _, list := range lists {
		for _, a := range list {
			n++
			e.step(n, a.call, a.name, a.why, a.man)
		}
	}
	e.print("\n")
}

func (e *explainer) child(mk maker) {
	e.print("The child's lane, %s:\n", mk.life())
	for i, s := range mk.program() {
		e.step(i+1, s.String(), s.Name, s.Why, s.ManPage())
	}
}

func (e *explainer) step(n int, call, name, why, man string) {
	text := strings.TrimSuffix(name+": "+why, ": ")
	e.print("%3d  %s\n     %s  [%s]\n", n, call, text, man)
}

// life says what executes a child's program.
func (m *noopMaker) life() string { return "executed in assembly; then it exits" }

func (m *noopMaker) program() nsexec.Program { return m.noops.Program() }

func (ptraceMaker) life() string {
	return "made by Go's fork and execve (syscall.ForkExec), in this order"
}

func (ptraceMaker) program() nsexec.Program { return tracedProgram() }
