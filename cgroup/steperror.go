package cgroup

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// StepError is a step that failed. It unwraps to the errno.
type StepError struct {
	Index, Total int // from 0
	Step         Step
	Err          error
	Hint         string // cause and remedy
}

func (e *StepError) Error() string {
	msg := fmt.Sprintf("cgroup: step %d/%d %q: %s: %s", e.Index+1, e.Total, e.Step.Name, e.Step, errText(e.Err))
	if e.Hint != "" {
		msg += "\n  " + strings.ReplaceAll(e.Hint, "\n", "\n  ")
	}
	return msg
}

// Unwrap makes errors.Is(err, unix.EBUSY) work.
func (e *StepError) Unwrap() error { return e.Err }

func errText(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Sprintf("%s (%s)", errno.Error(), unix.ErrnoName(errno))
	}
	return err.Error()
}

func stepError(p *Plan, i int, s Step, err error) error {
	e := &StepError{Index: i, Total: len(p.Before), Step: s, Err: err}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return e // it tells all
	}
	e.Hint = Hint(s, err)
	return e
}

// Hint is cause and remedy by step and errno; "" when the errno says it all.
func Hint(s Step, err error) string {
	for _, h := range []struct {
		op    Op
		errno unix.Errno
		text  string
	}{
		{OpMkdir, unix.EAGAIN, "cgroup.max.descendants or cgroup.max.depth of a folder above is reached: remove cgroups, or raise it"},
		{OpMkdir, unix.EEXIST, "a container with this cgroup's name is running, or another program made it: choose another name"},
		{OpLock, unix.EWOULDBLOCK, "another launcher makes a cgroup of this name at this moment: choose another name, or start again"},
		{OpMkdir, unix.ENOSPC, "the kernel's number of cgroups is used up (memory cgroups: 65535): do dead ones hold memory? echo 3 >/proc/sys/vm/drop_caches"},
		{OpMove, unix.EACCES, "a move takes the right to write cgroup.procs of the nearest folder above both places"},
		{OpEnable, unix.EBUSY, "a process came into this cgroup after we looked, and a cgroup with processes can't give controllers to its children: start again"},
		{OpEnable, unix.ENOENT, "a controller isn't among cgroup.controllers of this folder: it isn't delegated to it"},
		{OpEnable, unix.EOPNOTSUPP, "this is a threaded cgroup, or real-time processes keep the cpu controller at the root"},
		{OpWrite, unix.ENOENT, "this kernel has no such limit, or its controller isn't enabled here; memory.swap.max takes CONFIG_SWAP and isn't there with swapaccount=0"},
		{OpWrite, unix.EACCES, "the file isn't ours to write"},
		{OpWrite, unix.EINVAL, "the kernel doesn't take this value: more than the outer cgroup has, or not the file's form"},
		{OpWrite, unix.ERANGE, "the value is out of the file's range"},
		{OpWrite, unix.EBUSY, "more is in use already"},
		{OpWrite, unix.ENODEV, "there is no such device, or none whose scheduler takes this limit"},
	} {
		if s.Op == h.op && errors.Is(err, h.errno) {
			return h.text
		}
	}
	return ""
}
