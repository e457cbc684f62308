package nsexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The JSON form of plans and programs. It is stable: names may be added, not
// changed. Calls and errnos go by their names, so that a plan reads the same on
// every architecture. An argument is one of
//
//	{"int": 5}                                     a number
//	{"flags": "MS_NOSUID|MS_NODEV", "value": 6}    a number with a symbolic form
//	{"str": "/proc"}                               a string
//	{"slot": "root"}                               an earlier step's result
//	{"bytes": "{…}", "data": "base64"}             a structure: its meaning, its bytes in native order
//	  with "inner": "base64", "at": 4              and a block whose address is its 64-bit word 4
//	{"strs": ["sh", "-c", "…"]}                    argv, envp
//
// and a policy is absent (any error ends the child), {"allow": ["EINVAL"],
// "because": "…"}, {"expect": 1} or {"must_fail": "EAGAIN"}. A host step has its
// fields, and "call": the step as text.

// marshal is json.Marshal, but leaves <, > and & to the encoder outside.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

type hostStepFields HostStep

// MarshalJSON adds the step as text.
func (h HostStep) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		hostStepFields
		Call string `json:"call"`
	}{hostStepFields(h), h.String()})
}

type stepJSON struct {
	Name   string `json:"name,omitempty"`
	Call   Sysno  `json:"call"`
	Args   []Arg  `json:"args,omitempty"`
	Save   string `json:"save,omitempty"`
	Policy Policy `json:"policy,omitzero"`
	Why    string `json:"why,omitempty"`
	Man    string `json:"man,omitempty"`
}

// MarshalJSON writes the manual page in full.
func (s Step) MarshalJSON() ([]byte, error) {
	s.Man = s.ManPage()
	return marshal(stepJSON(s))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Step) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*stepJSON)(s)); err != nil {
		return err
	}
	if s.Man == s.Call.String()+"(2)" {
		s.Man = ""
	}
	return nil
}

// MarshalText is the call's name.
func (n Sysno) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a name, or syscall_N.
func (n *Sysno) UnmarshalText(text []byte) error {
	for _, s := range sysnos {
		if s.name == string(text) {
			*n = s.nr
			return nil
		}
	}
	number, is := strings.CutPrefix(string(text), "syscall_")
	v, err := strconv.ParseUint(number, 10, 32)
	if !is || err != nil {
		return fmt.Errorf("nsexec: %q is no system call that programs use", text)
	}
	*n = Sysno(v)
	return nil
}

type argJSON struct {
	Int   *int64   `json:"int,omitempty"`
	Flags *string  `json:"flags,omitempty"`
	Value uint64   `json:"value,omitempty"`
	Str   *string  `json:"str,omitempty"`
	Slot  string   `json:"slot,omitempty"`
	Bytes *string  `json:"bytes,omitempty"`
	Data  []byte   `json:"data,omitempty"`
	Inner []byte   `json:"inner,omitempty"`
	At    int      `json:"at,omitempty"`
	Strs  []string `json:"strs,omitempty"`
}

// MarshalJSON writes one of the forms above.
func (a Arg) MarshalJSON() ([]byte, error) {
	var j argJSON
	text := a.String()
	switch {
	case a.Kind == KindFlags:
		j.Flags, j.Value = &text, a.Value
	case a.Kind == KindStr:
		j.Str = &a.Text
	case a.Kind == KindSlot:
		j.Slot = a.Text
	case a.Kind == KindBytes && len(a.refs()) > 0:
		j.Bytes, j.Strs = &text, a.refs()
	case a.Kind == KindBytes:
		j.Bytes, j.Data = &text, a.data()
		if j.Inner = a.inner(); len(j.Inner) > 0 {
			j.At = a.Memory.At
		}
	default:
		v := int64(a.Value)
		j.Int = &v
	}
	return marshal(j)
}

// UnmarshalJSON reads one of the forms above.
func (a *Arg) UnmarshalJSON(data []byte) error {
	var j argJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	switch {
	case j.Int != nil:
		*a = Int(*j.Int)
	case j.Flags != nil:
		*a = Const(*j.Flags, j.Value)
	case j.Str != nil:
		*a = Str(*j.Str)
	case j.Slot != "":
		*a = Slot(j.Slot)
	case len(j.Strs) > 0:
		*a = Strs(j.Strs)
		if j.Bytes != nil {
			a.Text = *j.Bytes
		}
	case j.Bytes != nil:
		*a = Bytes(*j.Bytes, j.Data)
		a.Memory.Inner, a.Memory.At = j.Inner, j.At
	default:
		return fmt.Errorf("nsexec: an argument of no known form: %.80s", data)
	}
	return nil
}
