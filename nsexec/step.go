package nsexec

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Step is one system call of a child: what is called, with which arguments,
// which outcome is acceptable, and why it is made.
type Step struct {
	Name   string // a short phrase: "mount proc"
	Call   Sysno
	Args   []Arg  // at most six
	Save   string // the slot that keeps the return value, if a later step needs it
	Policy Policy
	Why    string // the reason, one sentence
	Man    string // the manual page; empty means Call(2)
}

// A Program is the list of system calls that one child makes, in order. There
// are no branches: choices are made in Go, from facts, before the list exists.
type Program []Step

// A Policy says which results of a step let the program go on. The zero value
// is Must: any error ends the child.
type Policy struct {
	// Allowed errors (at most four), with the reason that makes them harmless.
	Allowed []unix.Errno
	Because string
	// Exact, when set, demands this return value: a count, or -errno for a
	// call that has to fail.
	Exact  bool
	Result int64
}

// maxAllowed is how many errnos an encoded step has room for.
const maxAllowed = 4

// Accepts reports whether a program goes on after a step returned ret.
func (p Policy) Accepts(ret int64) bool {
	if p.Exact {
		return ret == p.Result
	}
	return !isErrno(ret) || slices.Contains(p.Allowed, unix.Errno(-ret))
}

// isErrno: Linux returns errors as -4095..-1 (syscall(2), "Architecture calling conventions").
func isErrno(ret int64) bool { return ret < 0 && ret >= -4095 }

// Named gives the step its phrase, joined from its parts.
func (s Step) Named(parts ...string) Step {
	s.Name = strings.Join(parts, "")
	return s
}

// Because gives the step its reason.
func (s Step) Because(why string) Step { s.Why = why; return s }

// As keeps the step's return value in a slot, to be used by Slot(name).
func (s Step) As(slot string) Step { s.Save = slot; return s }

// Allow lets the program go on after these errors, for the reason given.
func (s Step) Allow(because string, errnos ...unix.Errno) Step {
	s.Policy = Policy{Allowed: errnos, Because: because}
	return s
}

// Expect demands one return value. MustFail is its form for errors.
func (s Step) Expect(ret int64) Step {
	s.Policy = Policy{Exact: true, Result: ret}
	return s
}

// MustFail demands that the call fails with this error: it proves an absence.
func (s Step) MustFail(errno unix.Errno) Step { return s.Expect(-int64(errno)) }

// ManPage names the manual page that explains the step.
func (s Step) ManPage() string {
	if s.Man != "" {
		return s.Man
	}
	return s.Call.String() + "(2)"
}

// InvalidError is a fault of the program text itself: a bug in whoever planned it.
type InvalidError struct {
	Index  int
	Step   string
	Reason string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("nsexec: invalid program: step %d %q: %s (this is a bug)", e.Index+1, e.Step, e.Reason)
}

// Validate checks that every slot is filled before it is used and that every
// step fits its encoding. inputs are the slots that the host lane fills.
func (p Program) Validate(inputs ...string) error {
	known := make(map[string]bool, len(p)/2)
	for _, name := range inputs {
		known[name] = true
	}
	for i := range p {
		if reason := p[i].fault(known); reason != "" {
			return &InvalidError{Index: i, Step: p[i].Name, Reason: reason}
		}
		if p[i].Save != "" {
			known[p[i].Save] = true
		}
	}
	return nil
}

func (s *Step) fault(known map[string]bool) string {
	switch {
	case len(s.Args) > 6:
		return "more than six arguments"
	case len(s.Policy.Allowed) > maxAllowed:
		return "more than four allowed errors"
	case s.Save != "" && known[s.Save]:
		return "slot " + s.Save + " is filled twice"
	}
	for _, a := range s.Args {
		if a.Kind == KindSlot && !known[a.Text] {
			return "slot " + a.Text + " is used before it is filled"
		}
		if reason := a.fault(); reason != "" {
			return reason
		}
	}
	return ""
}

func (a Arg) fault() string {
	nul := func(s string) bool { return strings.Contains(s, "\x00") }
	switch {
	case a.Kind == KindStr && nul(a.Text), slices.ContainsFunc(a.refs(), nul):
		return "a string argument contains a NUL byte"
	case len(a.refs()) > 0 && len(a.data()) != 8*(len(a.refs())+1):
		return "an array of strings without its NULL"
	case len(a.inner()) > 0 && (a.Memory.At < 0 || a.Memory.At >= len(a.data())/8):
		return "an inner block without the word for its address"
	}
	return ""
}
