package cgroup

import "strings"

// The names of our folders: a reader sees whose they are, and Sweep touches no other.
const (
	namePrefix = "wolffia-"          // wolffia-PID-TIME
	leafPrefix = "wolffia-launcher-" // where a launcher moved itself
	innerName  = "container"         // in a container's folder: see Wish.Writable
)

// ours tells whether a folder's name is one of NewName's.
func ours(name string) bool {
	rest, ok := strings.CutPrefix(name, leafPrefix)
	if !ok {
		rest, ok = strings.CutPrefix(name, namePrefix)
	}
	pid, time, two := strings.Cut(rest, "-")
	return ok && two && pid != "" && time != "" && strings.Trim(pid, "0123456789") == "" && strings.Trim(time, "0123456789abcdef") == ""
}
