package userns

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// subIDs finds the caller's subordinate ids.
//
// getsubids(1) and newuidmap(1) ask the same library, libsubid, which loads a plugin only where the line "subid:" of
// /etc/nsswitch.conf names a source other than "files", and otherwise reads /etc/subuid by the rule of
// [ParseSubIDs]. So reading that line and the files gives the same answer, and saves the two starts of getsubids,
// one or two milliseconds each. getsubids is asked only where the answer lies elsewhere; and for an ordinary user without
// a line, who is about to be refused, in case that it knows better. Root without a line gets the free range instead.
func (p *prober) subIDs() {
	source, elsewhere := usesDirectory(p.optional("/etc/nsswitch.conf"))
	owner := Owner{p.User, p.UID}
	for _, file := range []struct {
		path string
		args []string
		to   *[]Range
	}{
		{"/etc/subuid", nil, &p.SubUID},
		{"/etc/subgid", []string{"-g"}, &p.SubGID},
	} {
		all, notes := parseSubIDFile(p.optional(file.path), file.path)
		p.note(notes...)
		p.everybody = append(p.everybody, all...)
		*file.to = ownedBy(all, owner)
		if elsewhere || len(*file.to) == 0 && !p.Privileged {
			p.askDirectory(source, file.path, file.args, file.to)
		}
	}
	p.spareIDs()
}

// askDirectory replaces the ranges of a file by those of getsubids, if it answers with any, and says what happened.
func (p *prober) askDirectory(source, file string, args []string, ranges *[]Range) {
	because := "nsswitch.conf has \"subid: " + source + "\""
	if source == "" {
		because = file + " has no range for " + Owner{p.User, p.UID}.String()
	}
	answer, err := p.getsubids(args)
	switch {
	case err != nil && len(*ranges) > 0:
		p.note(fmt.Sprintf("%s, but getsubids failed: %v; used %s", because, err, file))
	case err != nil:
		p.note(fmt.Sprintf("%s; getsubids failed too: %v", because, err))
	case len(answer) == 0 && len(*ranges) > 0:
		p.note(fmt.Sprintf("%s, but getsubids has no range; used %s", because, file))
	case len(answer) > 0:
		p.note(fmt.Sprintf("%s: used %s", because, answer[0].Source))
		*ranges = answer
	}
}

func (p *prober) getsubids(args []string) ([]Range, error) {
	if p.User == "" {
		return nil, fmt.Errorf("not run: uid %d has no login name", p.UID)
	}
	for _, dir := range p.dirs {
		path := filepath.Join(p.opts.Root, dir, "getsubids")
		if unix.Access(path, unix.X_OK) == nil {
			return getsubids(path, args, p.User, p.opts.Timeout)
		}
	}
	return nil, fmt.Errorf("getsubids: %w in PATH", unix.ENOENT)
}

// spareIDs finds what a caller without sub-ids could be given.
func (p *prober) spareIDs() {
	if len(p.SubUID) > 0 && len(p.SubGID) > 0 {
		return
	}
	busy := slices.Concat(accountSpans(p.passwd), accountSpans(p.optional("/etc/group")))
	for _, line := range p.everybody {
		p.NextSubID = max(p.NextSubID, line.Start+line.Count)
		busy = append(busy, line.span())
	}
	if p.Privileged {
		p.FreeRange = findFreeRange(p.optional("/etc/machine-id"), busy, p.UIDMap, p.GIDMap)
	}
}

// String is `"alice" or 1000`.
func (o Owner) String() string {
	if o.Name == "" {
		return "uid " + decimal(o.UID)
	}
	return fmt.Sprintf("%q (uid %d)", o.Name, o.UID)
}
