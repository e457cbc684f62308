package doctor

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
)

// Examine tells what the facts mean, for these checks or, without names, for all.
// It is pure. What wasn't tried is left out.
func Examine(f *Facts, only ...string) []Check {
	var list []Check
	for _, t := range topics() {
		if len(only) > 0 && !slices.Contains(only, t.name) {
			continue
		}
		c := t.judge(f)
		c.Name, c.Needed = t.name, t.needed
		list = append(list, c)
	}
	return list
}

// Reasons that several checks share.
const (
	reasonNotTried    = "not-tried"
	reasonNeedsUserns = "needs-user-namespaces"
	reasonSeccomp     = "seccomp"
	reasonRefused     = "refused" // by the kernel, and no cause is to be seen
)

// early judges an attempt that needs no word of its own: it worked, it wasn't
// made, or there was no namespace to make it in.
func (f *Facts) early(a Attempt, detail string) (Check, bool) {
	switch {
	case a.OK():
		return works(detail), true
	case !a.Tried:
		return but("", container.Cause{Code: reasonNotTried, What: "it was not tried"}), true
	case a.noNamespace():
		return cant(container.Cause{Code: reasonNeedsUserns, What: "it needs a user namespace: see user-namespaces"}), true
	}
	return Check{}, false
}

// noNamespace tells that the child or its maps were refused.
func (a Attempt) noNamespace() bool {
	switch a.Step {
	case stepMake, stepUIDMap, stepGIDMap, stepDeny:
		return true
	}
	return false
}

// refused is an attempt that failed at a step, where no cause but an outer filter
// is known.
func (f *Facts) refused(a Attempt, remedy string) container.Cause {
	if a.filtered() && f.Policy.Seccomp == 2 {
		return container.Cause{Code: reasonSeccomp, What: fmt.Sprintf("blocked by seccomp (Seccomp: 2): %s", a.Err),
			Remedy: "allow the call in the profile of the outer container or sandbox"}
	}
	return container.Cause{Code: reasonRefused, What: a.Err, Remedy: remedy}
}

// filtered tells that the errno is one that filters give.
func (a Attempt) filtered() bool { return a.Errno == unix.EPERM || a.Errno == unix.ENOSYS }
