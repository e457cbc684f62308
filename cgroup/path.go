package cgroup

import (
	"path"
	"strings"
)

// ParsePath reads linux.cgroupsPath: the container's own cgroup. An absolute
// path lies below the hierarchy's mount, a relative one below our own cgroup
// (runtime-spec, config-linux.md). crun and runc with a systemd manager take
// "slice:prefix:name" instead, which gives a folder prefix-name, and no parent:
// systemd's manager puts the scope into a slice of its choice.
func ParsePath(text string) (parent, name string, err error) {
	if strings.Count(text, ":") == 2 && !strings.Contains(text, "/") {
		f := strings.Split(text, ":")
		name = strings.TrimPrefix(f[1]+"-"+f[2], "-")
		if f[2] == "" {
			return "", "", &ValueError{"linux.cgroupsPath", text, "the name behind the last colon is empty", `write "slice:prefix:name", or a path`}
		}
		return "", name, nil
	}
	clean := path.Clean(text)
	parent, name = path.Split(clean)
	if name == "" || name == "." || name == ".." || strings.HasPrefix(clean, "../") {
		return "", "", &ValueError{"linux.cgroupsPath", text, "it names no cgroup that could be made", "name a folder, as /user.slice/NAME or NAME"}
	}
	if parent != "/" {
		parent = strings.TrimSuffix(parent, "/")
	}
	return parent, name, nil
}
