package container

import (
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Hint is cause and remedy for a step that failed, from the step, its errno and
// the facts; "" when there is nothing to add to the errno.
func Hint(e *nsexec.StepError, p *Plan) string {
	return ""
}

var _ = unix.EPERM
