package cgroup

import (
	"fmt"
	"slices"
	"strings"
)

// State is what became of a limit.
type State string

const (
	Intended   State = "planned"      // nothing was done yet
	InForce    State = "in force"     // read back from the kernel as it was asked for
	Rounded    State = "rounded"      // in force, as the kernel rounded it: memory is counted in pages
	NotInForce State = "not in force" // Cause tells why
)

// An Entry is one limit: what was asked, where it was written, and what the
// kernel says.
type Entry struct {
	Key     string `json:"limit"`
	Asked   string `json:"asked"`
	File    string `json:"file,omitempty"`    // "" when there is no place for it
	Want    string `json:"want,omitempty"`    // what is written
	Read    string `json:"read,omitempty"`    // what reading it back gave
	State   State  `json:"state"`             //
	Tighter string `json:"tighter,omitempty"` // what an outer cgroup has of it, which is less
	Cause   string `json:"cause,omitempty"`
}

// A Ledger has an entry for every limit that was asked for, and no limit is
// missing in it.
type Ledger []Entry

func (e Entry) String() string {
	s := fmt.Sprintf("%s (%s): %s", e.Key, e.Asked, e.State)
	if e.File != "" {
		s = fmt.Sprintf("%s (%s): %s = %s: %s", e.Key, e.Asked, e.File, e.Want, e.State)
	}
	if e.Read != "" && e.Read != e.Want {
		s += ", reads " + e.Read
	}
	if e.Tighter != "" {
		s += e.but() + e.Tighter
	}
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

func (e Entry) but() string {
	switch {
	case protects(e.Key):
		return ", but no more is kept than "
	case strings.HasPrefix(e.Key, "cpuset."):
		return ", but what can be used is "
	}
	return ", but reached first is "
}

// confine is for a cpuset of v2, which may name what an outer one doesn't have
// or what is offline: the kernel takes it, and goes by what is left (effective).
// If nothing is, the kernel goes by the outer one.
func (e *Entry) confine(effective string) {
	want, _ := parseList(e.Want)
	left, _ := parseList(effective)
	switch other := slices.DeleteFunc(slices.Clone(left), func(n int) bool { return slices.Contains(want, n) }); {
	case e.State == NotInForce || slices.Equal(want, left):
	case len(left) == 0 || len(other) > 0:
		e.fail(fmt.Sprintf("%s.effective is %q: an outer cpuset has none of them, or they are offline", e.File, effective))
	default:
		e.Tighter = e.File + ".effective " + effective
	}
}

// settle compares what was written with what was read back.
func (e *Entry) settle(read string) {
	e.Read = read
	switch compare(e.File, e.Want, read) {
	case same:
		e.State = InForce
	case rounded:
		e.State = Rounded
	default:
		e.State = NotInForce
		e.Cause = fmt.Sprintf("%q was written and the kernel took it, but %q is read back", e.Want, read)
	}
}

func (e *Entry) fail(cause string) { e.State, e.Cause = NotInForce, cause }

// LimitError is a start that --limits=require forbids.
type LimitError struct{ Entries Ledger }

func (e *LimitError) Error() string {
	msg := "cgroup: a limit isn't in force"
	for _, entry := range e.Entries {
		msg += "\n  " + entry.String()
	}
	return msg + "\n  --limits=try starts without"
}

// Settle is what a mode makes of a ledger after the limits were written: with
// Require an error unless each is in force; with Try warnings, one for each that
// isn't. Either way a tighter outer limit is a warning: what was asked for is
// set, but isn't what is reached first. It is pure.
func Settle(mode Mode, l Ledger) (warnings []string, err error) {
	var failed Ledger
	for _, e := range l {
		switch {
		case e.State != InForce && e.State != Rounded:
			failed = append(failed, e)
			warnings = append(warnings, "the limit isn't in force: "+e.String())
		case e.Tighter != "":
			warnings = append(warnings, "an outer limit is tighter: "+e.String())
		}
	}
	if len(failed) > 0 && mode != Try {
		return nil, &LimitError{failed}
	}
	return warnings, nil
}
