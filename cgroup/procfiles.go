package cgroup

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// ownCgroup is a line of /proc/self/cgroup (cgroups(7)).
type ownCgroup struct {
	controllers []string // v1; "name=systemd" is a hierarchy without one
	path        string   // as seen from the root of our cgroup namespace
}

// parseOwn reads "4:memory:/user.slice". v2's line is "0::/…".
func parseOwn(text string) []ownCgroup {
	var list []ownCgroup
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		own := ownCgroup{path: f[2]}
		if f[1] != "" {
			own.controllers = strings.Split(f[1], ",")
		}
		list = append(list, own)
	}
	return list
}

// cgroupMount is a mount of a cgroup file system (/proc/self/mountinfo, proc(5)).
type cgroupMount struct {
	version int
	root    string   // the cgroup that is shown at point, as seen from our cgroup namespace
	point   string   //
	super   []string // options of the file system: a v1 hierarchy's controllers are among them

	controllers []string // of the hierarchy
}

// parseMounts gives the cgroup mounts at or below root. Of two at one place the
// later covers the earlier.
func parseMounts(text, root string) []cgroupMount {
	var list []cgroupMount
	for line := range strings.Lines(text) {
		if !strings.Contains(line, " - cgroup") {
			continue
		}
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 || g[0] != "cgroup" && g[0] != "cgroup2" {
			continue
		}
		m := cgroupMount{version: 1, root: unescape(f[3]), point: unescape(f[4]),
			super: strings.Split(g[2], ",")}
		if g[0] == "cgroup2" {
			m.version = 2
		}
		if !within(m.point, root) {
			continue
		}
		list = slices.DeleteFunc(list, func(x cgroupMount) bool { return x.point == m.point })
		list = append(list, m)
	}
	return list
}

// unescape undoes the kernel's \040 for a blank.
func unescape(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
			s = s[:i] + string([]byte{byte(n)}) + s[i+4:]
		}
	}
	return s
}

// within tells whether a path is a folder or below it.
func within(p, folder string) bool {
	return p == folder || folder == "/" && strings.HasPrefix(p, "/") || strings.HasPrefix(p, folder+"/")
}

// locate is where our cgroup lies below a mount; missing says why it lies nowhere.
func (m cgroupMount) locate(own string) (folder, missing string) {
	switch {
	case strings.HasSuffix(own, " (deleted)"):
		return "", "our cgroup " + strings.TrimSuffix(own, " (deleted)") + " was removed"
	case strings.HasPrefix(own, "/.."):
		return "", "our cgroup " + own + " lies outside of our cgroup namespace, whose root is shown at " + m.point
	case !within(own, m.root):
		return "", "our cgroup is " + own + ", and " + m.point + " shows " + m.root
	}
	return path.Join(m.point, strings.TrimPrefix(own, m.root)), ""
}

// has tells whether this is the mount of a hierarchy.
func (m cgroupMount) has(own ownCgroup) bool {
	if own.controllers == nil {
		return m.version == 2
	}
	return m.version == 1 && !slices.ContainsFunc(own.controllers, func(c string) bool { return !slices.Contains(m.super, c) })
}
