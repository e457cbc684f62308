package cgroup

import (
	"slices"
	"strconv"
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
	l := one(file, what+" "+file+"="+value, canonical(file, strings.TrimSpace(value)))
	l.Key += deviceKey(value)
	return l, nil
}

// deviceKey tells limits of one file apart that are for several devices, or for
// several things of one: "8:0 rbps=1048576" gives " 8:0 rbps".
func deviceKey(value string) string {
	key, words := "", strings.Fields(value)
	if len(words) < 2 || !strings.Contains(value, "=") && !strings.Contains(words[0], ":") {
		return ""
	}
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		if key += " " + name; !strings.Contains(value, "=") {
			break // "8:0 50" of io.weight: the device alone
		}
	}
	return key
}

// canonical writes a value as the kernel prints it, so that reading it back can
// be compared: "32M" of memory as bytes (memparse(), which the kernel reads it
// with), a bandwidth with its period, a weight with the word it stands behind.
// What isn't understood stays, for the kernel to refuse.
func canonical(file, value string) string {
	words := strings.Fields(value)
	switch {
	case file == "cpu.max" && len(words) == 1:
		return value + " " + strconv.Itoa(PeriodUSec) // of a new cgroup
	case (file == "io.weight" || file == "io.bfq.weight") && len(words) == 1:
		return "default " + value
	case strings.HasPrefix(file, "memory.") || strings.HasPrefix(file, "hugetlb."):
		digits, shift, ok := splitUnit(value)
		if n, exact, err := scaled(digits, 1<<shift); ok && exact && err == nil {
			return strconv.FormatUint(n, 10)
		}
	}
	return value
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}
