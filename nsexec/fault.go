package nsexec

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The lanes of a plan, as StepError and Fault name them.
const (
	LaneHost  = "host"
	LaneChild = "child"
)

// A Fault makes one step fail without being made, to show what a start does
// then: the step returns Errno. A step whose policy allows Errno goes on.
type Fault struct {
	Lane  string // LaneHost or LaneChild
	Step  int    // from 0
	Errno unix.Errno
}

func (f *Fault) String() string {
	return fmt.Sprintf("fault: %s step %d returns %s, and no call is made", f.Lane, f.Step+1, ErrnoName(f.Errno))
}

// at tells whether the fault is meant for this step.
func (f *Fault) at(lane string, step int) bool { return f != nil && f.Lane == lane && f.Step == step }

// reason says what is wrong with a fault for this plan, or "".
func (f *Fault) reason(p *Plan) string {
	steps := map[string]int{LaneHost: len(p.Host), LaneChild: len(p.Child)}
	n, known := steps[f.Lane]
	switch {
	case !known:
		return "a fault's lane is host or child"
	case f.Step < 0 || f.Step >= n:
		return "the lane of the fault has no such step"
	case f.Errno == 0 || !isErrno(-int64(f.Errno)):
		return "a fault needs an errno, 1 to 4095"
	}
	return ""
}
