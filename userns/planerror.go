package userns

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The reasons of a *PlanError beside those of a [MapError].
const (
	ReasonNoSubUIDs   Reason = "no-subuids"
	ReasonNoSubGIDs   Reason = "no-subgids"
	ReasonNoNewUIDMap Reason = "no-newuidmap"
	ReasonNoNewGIDMap Reason = "no-newgidmap"
	ReasonUIDMapTool  Reason = "newuidmap-unprivileged"
	ReasonGIDMapTool  Reason = "newgidmap-unprivileged"
	ReasonNotOurs     Reason = "not-delegated"
	ReasonNotInParent Reason = "not-in-parent"
	ReasonNoFreeRange Reason = "no-free-range"
	ReasonNoSetFCap   Reason = "no-setfcap"
	ReasonBadRequest  Reason = "bad-request"
)

// PlanError is a map that can't be had here. Nothing was started. Where the fault is the map's own, it unwraps to a
// *MapError or *NotInParentError.
type PlanError struct {
	Reason Reason
	Cause  string // what is wrong, with the ids, files and lines concerned
	Remedy string // what to do about it
	Err    error
}

func (e *PlanError) Error() string { return "userns: plan id maps: " + e.Cause + "\n  " + e.Remedy }
func (e *PlanError) Unwrap() error { return e.Err }

// both joins the errors of the uid and the gid side into one: when both are at fault, both are named.
func both(uid, gid error) error {
	if uid == nil || gid == nil {
		return cmp.Or(uid, gid)
	}
	var u, g *PlanError
	if !errors.As(uid, &u) || !errors.As(gid, &g) {
		return errors.Join(uid, gid)
	}
	joined := &PlanError{u.Reason, u.Cause + "; " + g.Cause, u.Remedy, errors.Join(u.Err, g.Err)}
	if g.Remedy != u.Remedy {
		joined.Remedy += "\n  " + g.Remedy
	}
	return joined
}

const offerSingle = "--map single needs neither sub-ids nor helpers, but has one id only"

// noSubIDs is an ordinary user without a range.
func (s side) noSubIDs() *PlanError {
	cause := fmt.Sprintf("%s has no subordinate %ss: no line for them in %s", s.owner(), s.kind, s.file)
	if len(s.facts.Notes) > 0 {
		cause += " (" + strings.Join(s.facts.Notes, "; ") + ")"
	}
	return &PlanError{Reason: s.reasons.noSubIDs, Cause: cause, Remedy: s.facts.usermod() + "; or " + offerSingle}
}

// usermod is the command that gives the user what is missing, after everybody else's ranges.
func (f *Facts) usermod() string {
	first := max(f.NextSubID, 100000)
	if first > maxID-65536 {
		first = 100000
	}
	ids, flags, files := fmt.Sprintf("%d-%d", first, first+65535), "", ""
	if len(f.SubUID) == 0 {
		flags, files = " --add-subuids "+ids, "/etc/subuid"
	}
	if len(f.SubGID) == 0 {
		flags += " --add-subgids " + ids
		files = strings.TrimPrefix(files+" and /etc/subgid", " and ")
	}
	return fmt.Sprintf("as root: usermod%s %s (which adds the line \"%s:%d:65536\" to %s)",
		flags, f.login(), f.login(), first, files)
}

// login is the user's name, or his uid, which subuid(5) takes as well.
func (f *Facts) login() string {
	if f.User == "" {
		return decimal(f.UID)
	}
	return f.User
}

// toolError is a map that needs a helper, and the helper can't write it.
func (s side) toolError() *PlanError {
	if problem := s.tool.Problem(); problem != "" {
		if !s.tool.Found {
			return &PlanError{Reason: s.reasons.noTool, Cause: problem,
				Remedy: "install it (Debian and Ubuntu: apt-get install uidmap); or " + offerSingle}
		}
		return &PlanError{Reason: s.reasons.badTool, Cause: problem, Remedy: fmt.Sprintf(
			"reinstall it (Debian and Ubuntu: apt-get install --reinstall uidmap), or as root: chown root %[1]s && chmod 4755 %[1]s; or %[2]s",
			s.tool.Path, offerSingle)}
	}
	if cause := s.powerless(); cause != "" {
		return &PlanError{Reason: s.reasons.badTool, Cause: fmt.Sprintf("%s can't write id maps: %s", s.tool.Path, cause),
			Remedy: "start wolffia from a process without that restriction; or " + offerSingle}
	}
	return nil
}

// powerless says what takes a well installed helper's privilege away from this process and its children.
func (s side) powerless() string {
	if s.facts.NoNewPrivs {
		return "no_new_privs is set on this process (PR_SET_NO_NEW_PRIVS), so set-uid bits and file capabilities do nothing"
	}
	for _, lost := range s.facts.Unbounded {
		if lost == s.tool.capability() {
			return "the capability bounding set of this process lacks " + lost
		}
	}
	return s.facts.Barred
}

// mapError is a map that the kernel would take for malformed; when is "" or says which form of the map that is.
func (s side) mapError(err error, when string) error {
	var fault *MapError
	if !errors.As(err, &fault) {
		return err
	}
	return &PlanError{Reason: fault.Reason, Cause: s.kind + strings.TrimPrefix(fault.Error(), "userns: id") + when,
		Remedy: "change that line; see user_namespaces(7)", Err: err}
}

// notInParent is a map of ids that our own namespace doesn't have.
func (s side) notInParent(err error) error {
	var fault *NotInParentError
	if !errors.As(err, &fault) {
		return err
	}
	remedy := "use --map single"
	if s.facts.Privileged {
		remedy = "use --map host (the ids that exist here) or --map single"
	}
	return &PlanError{Reason: ReasonNotInParent, Cause: s.kind + " map " + fault.detail(),
		Remedy: remedy + "; or, if this is inside a container, start the outer one with those ids mapped", Err: err}
}
