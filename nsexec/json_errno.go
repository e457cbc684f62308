package nsexec

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// Errnos in JSON are names. Their type is the syscall package's, so what holds
// them does the writing.

// errnoName is an errno in JSON.
type errnoName unix.Errno

func (e errnoName) MarshalText() ([]byte, error) { return []byte(ErrnoName(unix.Errno(e))), nil }

func (e *errnoName) UnmarshalText(text []byte) error {
	for n := unix.Errno(0); n < 4096; n++ {
		if ErrnoName(n) == string(text) {
			*e = errnoName(n)
			return nil
		}
	}
	return fmt.Errorf("nsexec: %q is no errno's name", text)
}

type policyJSON struct {
	Allow    []errnoName `json:"allow,omitempty"`
	Because  string      `json:"because,omitempty"`
	Expect   *int64      `json:"expect,omitempty"`
	MustFail *errnoName  `json:"must_fail,omitempty"`
}

// MarshalJSON writes one of the forms at the head of json.go.
func (p Policy) MarshalJSON() ([]byte, error) {
	j := policyJSON{Because: p.Because}
	switch {
	case p.Exact && isErrno(p.Result):
		e := errnoName(-p.Result)
		j.MustFail = &e
	case p.Exact:
		j.Expect = &p.Result
	default:
		for _, e := range p.Allowed {
			j.Allow = append(j.Allow, errnoName(e))
		}
	}
	return marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var j policyJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*p = Policy{Because: j.Because}
	switch {
	case j.MustFail != nil:
		p.Exact, p.Result = true, -int64(*j.MustFail)
	case j.Expect != nil:
		p.Exact, p.Result = true, *j.Expect
	}
	for _, e := range j.Allow {
		p.Allowed = append(p.Allowed, unix.Errno(e))
	}
	return nil
}

// IsZero: any error ends the child, which JSON leaves out.
func (p Policy) IsZero() bool { return !p.Exact && len(p.Allowed) == 0 && p.Because == "" }

type faultJSON struct {
	Lane  string    `json:"lane"`
	Step  int       `json:"step"`
	Errno errnoName `json:"errno"`
}

// MarshalJSON writes {"lane": "child", "step": 3, "errno": "EPERM"}, from 0.
func (f Fault) MarshalJSON() ([]byte, error) {
	return marshal(faultJSON{f.Lane, f.Step, errnoName(f.Errno)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var j faultJSON
	err := json.Unmarshal(data, &j)
	*f = Fault{j.Lane, j.Step, unix.Errno(j.Errno)}
	return err
}
