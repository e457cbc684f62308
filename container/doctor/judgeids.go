package doctor

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
	"wolffia.dev/userns"
)

func (f *Facts) judgeUserns() Check {
	a := f.Userns
	switch {
	case !a.Tried:
		c, _ := f.early(a, "")
		return c
	case a.OK():
		return works(fmt.Sprintf("made, mapped, and good for a mount; they nest %d deep here", f.Depth)).with("nesting", f.Depth)
	case a.Step == stepMake:
		return cant(f.noUserns(a)...)
	}
	causes := f.Policy.TakesCapabilities()
	switch {
	case a.Errno == unix.ENOENT:
		causes = []container.Cause{hiddenProc(f.HidePID)}
	case a.Errno != unix.EPERM && a.Errno != unix.EACCES || len(causes) == 0:
		causes = []container.Cause{f.refused(a, "see user_namespaces(7)")}
	}
	return cant(causes...)
}

// noUserns is why clone(2) made no user namespace.
func (f *Facts) noUserns(a Attempt) []container.Cause {
	switch a.Errno {
	case unix.EPERM, unix.EACCES:
		return f.Policy.ForbidsUserns()
	case unix.ENOSPC, unix.EUSERS:
		return []container.Cause{f.Policy.NamespaceLimit()}
	case unix.EAGAIN, unix.ENOMEM:
		return []container.Cause{f.Policy.ProcessLimit()}
	case unix.EMFILE:
		return []container.Cause{container.TooFewFiles()}
	case unix.EINVAL:
		return []container.Cause{{Code: "userns-kernel", What: "this kernel has no user namespaces, or an outer sandbox refuses them (EINVAL)", Remedy: "zgrep CONFIG_USER_NS /proc/config.gz"}}
	}
	return []container.Cause{f.refused(a, "see clone(2)")}
}

// enoughIDs is what images expect of a container's ids: 0 to 65535, of which the
// first is our own.
const enoughIDs = 65535

func (f *Facts) judgeSubIDs() Check {
	switch {
	case f.IDsErr != nil:
		return cant(container.Cause{Code: "no-proc", What: f.IDsErr.Error()})
	case f.IDs == nil:
		c, _ := f.early(Attempt{}, "")
		return c
	}
	m, err := userns.PlanMaps(userns.Request{Mode: userns.Auto}, f.IDs)
	var fault *userns.PlanError
	if errors.As(err, &fault) && !ofHelper(fault.Reason) {
		return f.idFacts(cant(container.Cause{Code: string(fault.Reason), What: fault.Cause, Remedy: fault.Remedy}))
	}
	if f.IDs.Privileged {
		return works(fmt.Sprintf("root: a range of %d ids", m.UID.Size()))
	}
	detail := fmt.Sprintf("%s; %s", described("uids", f.IDs.SubUID), described("gids", f.IDs.SubGID))
	short := max(missing(f.IDs.SubUID), missing(f.IDs.SubGID))
	if short == 0 {
		return f.idFacts(works(detail))
	}
	return f.idFacts(but(detail, container.Cause{Code: "few-subids", What: fmt.Sprintf("%d short of the %d that images expect, so some of their files' owners don't exist in a container", short, enoughIDs),
		Remedy: fmt.Sprintf("as root: usermod --add-subuids 600000-%d --add-subgids 600000-%d %s (choose a free range)", 600000+enoughIDs, 600000+enoughIDs, f.IDs.User)}))
}

func (f *Facts) idFacts(c Check) Check {
	return c.with("uids", sum(f.IDs.SubUID)).with("gids", sum(f.IDs.SubGID)).
		with("uid_ranges", len(f.IDs.SubUID)).with("gid_ranges", len(f.IDs.SubGID)).
		with("uid_keys", keys(f.IDs.SubUID)).with("gid_keys", keys(f.IDs.SubGID)).
		with("missing", max(missing(f.IDs.SubUID), missing(f.IDs.SubGID)))
}

func sum(list []userns.Range) (n uint64) {
	for _, r := range list {
		n += uint64(r.Count)
	}
	return n
}

func missing(list []userns.Range) uint64 {
	if n := sum(list); n < enoughIDs {
		return enoughIDs - n
	}
	return 0
}

// keys tells how the lines name their owner: subuid(5) takes both.
func keys(list []userns.Range) string {
	var kinds []string
	for _, kind := range []string{"name", "uid"} {
		for _, r := range list {
			if strings.HasSuffix(r.Source, "(by "+kind+")") {
				kinds = append(kinds, kind)
				break
			}
		}
	}
	return strings.Join(kinds, " and ")
}

func described(what string, list []userns.Range) string {
	text := fmt.Sprintf("%d %s in %d range", sum(list), what, len(list))
	if len(list) != 1 {
		text += "s"
	}
	if by := keys(list); by != "" {
		text += " (by " + by + ")"
	}
	return text
}

func ofHelper(r userns.Reason) bool {
	switch r {
	case userns.ReasonNoNewUIDMap, userns.ReasonNoNewGIDMap, userns.ReasonUIDMapTool, userns.ReasonGIDMapTool:
		return true
	}
	return false
}

func (f *Facts) judgeHelpers() Check {
	if f.IDs == nil {
		c, _ := f.early(Attempt{}, "")
		return c
	}
	if f.IDs.Privileged {
		return works("not needed: this process maps ids itself")
	}
	_, err := userns.PlanMaps(userns.Request{Mode: userns.Auto}, f.IDs)
	var fault *userns.PlanError
	switch {
	case errors.As(err, &fault) && ofHelper(fault.Reason):
		return cant(container.Cause{Code: string(fault.Reason), What: fault.Cause, Remedy: fault.Remedy})
	case err != nil:
		return f.untriedHelpers()
	}
	if c, done := f.early(f.Mapped, f.IDs.NewUIDMap.Path+" and "+f.IDs.NewGIDMap.Path+" wrote the maps"); done {
		return c
	}
	return cant(container.Cause{Code: "helper-refused", What: f.Mapped.Err, Remedy: "compare /etc/subuid and /etc/subgid with the map; --map single needs no helper"})
}

// untriedHelpers are those of a user without sub-ids.
func (f *Facts) untriedHelpers() Check {
	for _, t := range []userns.Tool{f.IDs.NewUIDMap, f.IDs.NewGIDMap} {
		if problem := t.Problem(); problem != "" {
			return cant(container.Cause{Code: "no-" + t.Name, What: problem, Remedy: "install it (Debian and Ubuntu: apt-get install uidmap)"})
		}
	}
	return but("they look fine", container.Cause{Code: reasonNotTried, What: "there are no sub-ids to try them with: see sub-ids"})
}

func (f *Facts) judgeUsernsFDs() Check {
	var good, bad []string
	for _, m := range f.FDs {
		if m.OK() {
			good = append(good, m.Name)
		} else {
			bad = append(bad, m.Name)
		}
	}
	c := Check{}
	switch {
	case len(f.FDs) == 0:
		c, _ = f.early(Attempt{}, "")
	case len(bad) == 0:
		c = works("by " + strings.Join(good, ", "))
	case len(good) > 0:
		c = but("by "+strings.Join(good, ", "), container.Cause{Code: "mechanism-missing", What: "not by " + strings.Join(bad, ", ") + ": " + firstFailed(f.FDs).Err})
	default:
		var done bool
		if c, done = f.early(f.FDs[0].Attempt, ""); !done {
			c = cant(f.refused(f.FDs[0].Attempt, ""))
		}
	}
	return c.with("mechanisms", good)
}

func firstFailed(list []Mechanism) Attempt {
	for _, m := range list {
		if !m.OK() {
			return m.Attempt
		}
	}
	return Attempt{}
}
