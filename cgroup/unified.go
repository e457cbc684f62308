package cgroup

import (
	"slices"
	"strings"
)

// coreFiles are the files of the cgroup core that limit anything. The others
// move processes, kill or freeze them, or change what the folder is.
var coreFiles = []string{"cgroup.max.depth", "cgroup.max.descendants"}

// unifiedLimit is an entry of linux.resources.unified or --cgroup-conf: a
// cgroup v2 file and what is written to it, as it stands.
func unifiedLimit(what, file, value string) (Limit, error) {
	fault := func(cause, remedy string) (Limit, error) {
		return Limit{}, &ValueError{what, file + "=" + value, cause, remedy}
	}
	controller, rest, dotted := strings.Cut(file, ".")
	switch {
	case !dotted || controller == "" || rest == "" || strings.ContainsFunc(file, notOfName):
		return fault("this is no interface file of cgroup v2", "name one as memory.high or io.max")
	case controller == "cgroup" && !slices.Contains(coreFiles, file):
		return fault("this file is no limit: it moves, ends or stops processes, or changes the folder itself", "of cgroup.* take "+strings.Join(coreFiles, " or "))
	case strings.TrimSpace(value) == "":
		return fault("the value is empty, and the kernel may take that for 0", `write "max" for no limit`)
	case strings.Contains(value, "\n"):
		return fault("the value has more than one line, and a write sets one", "set one device here")
	}
	return one(file, what+" "+file+"="+value, strings.TrimSpace(value)), nil
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}
