package userns

import (
	"fmt"
	"strings"
)

// Range is a run of subordinate ids (subuid(5)) and where it was found, e.g. "/etc/subuid line 3 (by name)".
type Range struct {
	Start  uint32 `json:"start"`
	Count  uint32 `json:"count"`
	Source string `json:"source"`
}

func (r Range) span() span { return spanOf(r.Start, r.Count) }

// String is "100000-165535 (/etc/subuid line 3 (by name))".
func (r Range) String() string { return fmt.Sprintf("%s (%s)", r.span(), r.Source) }

// Owner is whose subordinate ids are looked up: lines of subuid(5) name him by login name or by decimal uid. The
// lines of /etc/subgid name the *user* too, never a group.
type Owner struct {
	Name string
	UID  uint32
}

// ParseSubIDs reads the text of /etc/subuid or /etc/subgid: lines "owner:start:count". It returns the ranges of one
// owner in the order of the file, by name and by number. A malformed line is skipped, as newuidmap(1) skips it, and
// leaves a note with file and line.
func ParseSubIDs(text, file string, owner Owner) (mine []Range, notes []string) {
	all, notes := parseSubIDFile(text, file)
	return ownedBy(all, owner), notes
}

// subIDLine is one line of subuid(5).
type subIDLine struct {
	owner string
	Range
}

func parseSubIDFile(text, file string) (lines []subIDLine, notes []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s line %d", file, number)
		parsed, err := parseSubIDLine(line)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s skipped: %v", where, err))
			continue
		}
		parsed.Source = where
		lines = append(lines, parsed)
	}
	return lines, notes
}

func parseSubIDLine(line string) (subIDLine, error) {
	fields := strings.Split(line, ":")
	if len(fields) != 3 || fields[0] == "" {
		return subIDLine{}, &ParseError{"line", line, "want owner:start:count"}
	}
	return subIDOf(fields[0], fields[1], fields[2])
}

func subIDOf(owner, start, count string) (subIDLine, error) {
	first, err := parseID(start)
	if err != nil {
		return subIDLine{}, &ParseError{"start", start, err.Error()}
	}
	n, err := parseID(count)
	if err != nil {
		return subIDLine{}, &ParseError{"count", count, err.Error()}
	}
	if reason := (Extent{Outside: first, Length: n}).fault(); reason != "" {
		return subIDLine{}, &ParseError{"count", count, reason.text()}
	}
	return subIDLine{owner, Range{Start: first, Count: n}}, nil
}

// ownedBy picks an owner's lines and adds to their source how they matched.
func ownedBy(lines []subIDLine, owner Owner) []Range {
	var mine []Range
	for _, line := range lines {
		how := ""
		switch line.owner {
		case owner.Name:
			how = " (by name)"
		case decimal(owner.UID):
			how = " (by uid)"
		default:
			continue
		}
		mine = append(mine, Range{line.Start, line.Count, line.Source + how})
	}
	return mine
}

// usesDirectory reports whether nsswitch.conf(5) sends subordinate ids elsewhere than to the files, and where.
func usesDirectory(nsswitch string) (source string, elsewhere bool) {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		database, sources, _ := strings.Cut(line, ":")
		if strings.TrimSpace(database) != "subid" {
			continue
		}
		for _, source := range strings.Fields(sources) {
			if source != "files" && source[0] != '[' {
				return source, true
			}
		}
	}
	return "", false
}
