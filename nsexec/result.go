package nsexec

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what one step did. Start and End are ticks of the CPU's counter.
type Result struct {
	Started    bool  // the step was reached
	Ran        bool  // the call returned; a successful execve never does
	Ret        int64 // return value, or -errno
	Start, End uint64
}

// Errno is the step's error, or 0.
func (r Result) Errno() unix.Errno {
	if r.Ran && isErrno(r.Ret) {
		return unix.Errno(-r.Ret)
	}
	return 0
}

// A Report is what a Plan did: a Result for each step of both lanes.
type Report struct {
	Host, Child []Result
	Notes       []string // every fallback, for a person
	Clock       Clock
}

// A Clock turns ticks into time: it reads the counter and CLOCK_MONOTONIC
// together, at two moments at least 1 ms apart for an error below 0.1 %.
type Clock struct {
	Tick0, Tick1 uint64
	Time0, Time1 time.Time
}

// StartClock reads both clocks.
func StartClock() Clock { return Clock{Tick0: Ticks(), Time0: time.Now()} }

// Stop reads both clocks again.
func (c *Clock) Stop() { c.Tick1, c.Time1 = Ticks(), time.Now() }

// Duration is the time that a number of ticks took.
func (c Clock) Duration(ticks uint64) time.Duration {
	span := c.Tick1 - c.Tick0
	if span == 0 || c.Tick1 < c.Tick0 {
		return 0
	}
	return time.Duration(float64(ticks) * float64(c.Time1.Sub(c.Time0)) / float64(span))
}

// Since is the moment of a tick, counted from the clock's start.
func (c Clock) Since(tick uint64) time.Duration {
	if tick < c.Tick0 {
		return 0
	}
	return c.Duration(tick - c.Tick0)
}

// Stopped is the index of the step that ended the program, or -1 if it ran to
// its end or to a successful execve. A step that started and did not return is
// where the child was killed, unless it is an execve that may have succeeded.
func (p Program) Stopped(results []Result) int {
	for i, r := range results {
		switch {
		case !r.Started:
			return i
		case !r.Ran && p[i].Call == unix.SYS_EXECVE:
			return -1
		case !r.Ran || !p[i].Policy.Accepts(r.Ret):
			return i
		}
	}
	return -1
}

// Executed tells whether the program reached an execve that didn't fail.
func (p Program) Executed(results []Result) bool {
	for i, r := range results {
		if p[i].Call == unix.SYS_EXECVE && r.Started && !r.Ran {
			return true
		}
	}
	return false
}

// StepError is a step that failed. It unwraps to the errno.
type StepError struct {
	Lane  string // "host" or "child"
	Index int    // from 0
	Total int
	Name  string // the step's phrase
	Call  string // the call, decoded
	Ret   int64  // what it returned
	Errno unix.Errno
	Cause error  // host steps: what went wrong, when it is more than an errno
	Hint  string // cause and remedy, for a person
}

func (e *StepError) Error() string {
	what := ""
	switch {
	case e.Cause != nil:
		what = e.Cause.Error()
	case e.Errno != 0:
		what = errnoText(e.Errno)
	default:
		what = fmt.Sprintf("returned %s", ReturnText(e.Ret))
	}
	lane := ""
	if e.Lane == "host" {
		lane = "host "
	}
	msg := fmt.Sprintf("nsexec: %sstep %d/%d %q: %s: %s", lane, e.Index+1, e.Total, e.Name, e.Call, what)
	if e.Hint != "" {
		msg += "\n  " + strings.ReplaceAll(e.Hint, "\n", "\n  ")
	}
	return msg
}

// Unwrap makes errors.Is(err, unix.EPERM) work.
func (e *StepError) Unwrap() error {
	switch {
	case e.Cause != nil:
		return e.Cause
	case e.Errno != 0:
		return e.Errno
	}
	return nil
}

// UnsupportedError tells that this kernel, or a filter above us, lacks a feature.
type UnsupportedError struct {
	Feature string // "pidfd_send_signal(2)"
	Since   string // first kernel that has it: "5.1"
	Errno   unix.Errno
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("nsexec: %s isn't available here: %s; Linux has it since %s, so an older kernel or a seccomp filter is the cause",
		e.Feature, errnoText(e.Errno), e.Since)
}

func (e *UnsupportedError) Unwrap() error { return e.Errno }
