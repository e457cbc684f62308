package userns

import "fmt"

const (
	// maxID is the largest value of an id's type. It means "no id" (chown(2)'s -1) and can't be mapped.
	maxID = 1<<32 - 1
	// MaxLines is how many lines the kernel takes in one map since 4.15 (UID_GID_MAP_MAX_EXTENTS); 5 before.
	MaxLines = 340
	// MaxBytes is the longest map text the kernel takes: less than one page, and 4096 bytes is the smallest page.
	MaxBytes = 4095
)

// Reason is a stable code for why a map can't be had. Programs compare it; it never changes its spelling.
type Reason string

// The faults of a map by itself, as [IDMap.Validate] finds them.
const (
	ReasonEmpty        Reason = "empty"
	ReasonZeroLength   Reason = "zero-length"
	ReasonWrap         Reason = "wrap"
	ReasonOverlap      Reason = "overlap"
	ReasonTooManyLines Reason = "too-many-lines"
	ReasonTooLong      Reason = "too-long"
)

// text says what a fault of a single map means.
func (r Reason) text() string {
	switch r {
	case ReasonEmpty:
		return "a map needs at least one line"
	case ReasonZeroLength:
		return "the length is 0"
	case ReasonWrap:
		return "ids run past 4294967294, the last one that there is"
	case ReasonTooManyLines, ReasonTooLong:
		return fmt.Sprintf("a map has at most %d lines (since kernel 4.15; 5 before) and %d bytes (less than a page)",
			MaxLines, MaxBytes)
	}
	return string(r)
}

// MapError is a map that the kernel would refuse with EINVAL. Line counts from 1 and is 0 when the map as a whole is
// at fault.
type MapError struct {
	Line   int
	Extent Extent
	Reason Reason
	Detail string // what it collides with, how many lines it has
}

func (e *MapError) Error() string {
	text := "userns: id map"
	if e.Line > 0 {
		text += fmt.Sprintf(" line %d (%s)", e.Line, e.Extent)
	}
	if e.Detail != "" {
		return text + ": " + e.Detail
	}
	return text + ": " + e.Reason.text()
}

// Validate checks what the kernel checks in map_write() (kernel/user_namespace.c) and answers with EINVAL. The error
// is a *MapError and names the first line at fault.
func (m IDMap) Validate() error {
	if len(m) == 0 {
		return &MapError{Reason: ReasonEmpty}
	}
	if err := m.checkLimits(); err != nil {
		return err
	}
	for i, e := range m {
		if reason := e.fault(); reason != "" {
			return &MapError{Line: i + 1, Extent: e, Reason: reason}
		}
		if err := m.checkOverlap(i); err != nil {
			return err
		}
	}
	return nil
}

func (m IDMap) checkLimits() error {
	if len(m) > MaxLines {
		return &MapError{Line: MaxLines + 1, Extent: m[MaxLines], Reason: ReasonTooManyLines,
			Detail: fmt.Sprintf("%d lines: %s", len(m), ReasonTooManyLines.text())}
	}
	size := 0
	var line [40]byte
	for i, e := range m {
		size += len(e.appendLine(line[:0]))
		if size > MaxBytes {
			return &MapError{Line: i + 1, Extent: e, Reason: ReasonTooLong,
				Detail: fmt.Sprintf("%d bytes: %s", len(m.String()), ReasonTooLong.text())}
		}
	}
	return nil
}

// fault is what is wrong with an extent by itself; "" if nothing is.
func (e Extent) fault() Reason {
	switch {
	case e.Length == 0:
		return ReasonZeroLength
	case e.insideSpan().end > maxID, e.outsideSpan().end > maxID:
		return ReasonWrap
	}
	return ""
}

// checkOverlap compares line i (from 0) with those before it.
func (m IDMap) checkOverlap(i int) error {
	for j, before := range m[:i] {
		side, common := "inside", m[i].insideSpan().intersect(before.insideSpan())
		if common.start >= common.end {
			side, common = "outside", m[i].outsideSpan().intersect(before.outsideSpan())
		}
		if common.start < common.end {
			return &MapError{Line: i + 1, Extent: m[i], Reason: ReasonOverlap,
				Detail: fmt.Sprintf("overlaps line %d (%s): %s ids %s are in both", j+1, before, side, common)}
		}
	}
	return nil
}
