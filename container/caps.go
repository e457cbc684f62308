package container

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilityNames are the names of linux/capability.h by number, up to Linux
// 5.9. A running kernel may know fewer: /proc/sys/kernel/cap_last_cap.
var capabilityNames = [...]string{
	unix.CAP_CHOWN:              "CAP_CHOWN",
	unix.CAP_DAC_OVERRIDE:       "CAP_DAC_OVERRIDE",
	unix.CAP_DAC_READ_SEARCH:    "CAP_DAC_READ_SEARCH",
	unix.CAP_FOWNER:             "CAP_FOWNER",
	unix.CAP_FSETID:             "CAP_FSETID",
	unix.CAP_KILL:               "CAP_KILL",
	unix.CAP_SETGID:             "CAP_SETGID",
	unix.CAP_SETUID:             "CAP_SETUID",
	unix.CAP_SETPCAP:            "CAP_SETPCAP",
	unix.CAP_LINUX_IMMUTABLE:    "CAP_LINUX_IMMUTABLE",
	unix.CAP_NET_BIND_SERVICE:   "CAP_NET_BIND_SERVICE",
	unix.CAP_NET_BROADCAST:      "CAP_NET_BROADCAST",
	unix.CAP_NET_ADMIN:          "CAP_NET_ADMIN",
	unix.CAP_NET_RAW:            "CAP_NET_RAW",
	unix.CAP_IPC_LOCK:           "CAP_IPC_LOCK",
	unix.CAP_IPC_OWNER:          "CAP_IPC_OWNER",
	unix.CAP_SYS_MODULE:         "CAP_SYS_MODULE",
	unix.CAP_SYS_RAWIO:          "CAP_SYS_RAWIO",
	unix.CAP_SYS_CHROOT:         "CAP_SYS_CHROOT",
	unix.CAP_SYS_PTRACE:         "CAP_SYS_PTRACE",
	unix.CAP_SYS_PACCT:          "CAP_SYS_PACCT",
	unix.CAP_SYS_ADMIN:          "CAP_SYS_ADMIN",
	unix.CAP_SYS_BOOT:           "CAP_SYS_BOOT",
	unix.CAP_SYS_NICE:           "CAP_SYS_NICE",
	unix.CAP_SYS_RESOURCE:       "CAP_SYS_RESOURCE",
	unix.CAP_SYS_TIME:           "CAP_SYS_TIME",
	unix.CAP_SYS_TTY_CONFIG:     "CAP_SYS_TTY_CONFIG",
	unix.CAP_MKNOD:              "CAP_MKNOD",
	unix.CAP_LEASE:              "CAP_LEASE",
	unix.CAP_AUDIT_WRITE:        "CAP_AUDIT_WRITE",
	unix.CAP_AUDIT_CONTROL:      "CAP_AUDIT_CONTROL",
	unix.CAP_SETFCAP:            "CAP_SETFCAP",
	unix.CAP_MAC_OVERRIDE:       "CAP_MAC_OVERRIDE",
	unix.CAP_MAC_ADMIN:          "CAP_MAC_ADMIN",
	unix.CAP_SYSLOG:             "CAP_SYSLOG",
	unix.CAP_WAKE_ALARM:         "CAP_WAKE_ALARM",
	unix.CAP_BLOCK_SUSPEND:      "CAP_BLOCK_SUSPEND",
	unix.CAP_AUDIT_READ:         "CAP_AUDIT_READ",
	unix.CAP_PERFMON:            "CAP_PERFMON",
	unix.CAP_BPF:                "CAP_BPF",
	unix.CAP_CHECKPOINT_RESTORE: "CAP_CHECKPOINT_RESTORE",
}

// AllCaps returns every capability's name, in the kernel's order.
func AllCaps() []string { return slices.Clone(capabilityNames[:]) }

// DefaultCaps returns the 14 capabilities that Docker leaves to a container.
func DefaultCaps() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_AUDIT_WRITE", "CAP_SETFCAP"}
}

// UnknownCapError names a capability that capabilities(7) doesn't have.
type UnknownCapError struct {
	Name    string // as written
	Nearest string // the known name that is spelled most like it
}

func (e *UnknownCapError) Error() string {
	return fmt.Sprintf("unknown capability %q (did you mean %s?)", e.Name, e.Nearest)
}

// CapNumber is the kernel's number of a capability: "CAP_CHOWN", "chown".
func CapNumber(name string) (int, error) {
	if n := slices.Index(capabilityNames[:], name); n >= 0 {
		return n, nil
	}
	if n := slices.Index(capabilityNames[:], fullCapName(name)); n >= 0 {
		return n, nil
	}
	return 0, &UnknownCapError{Name: name, Nearest: nearestCap(fullCapName(name))}
}

// CapName is the name of capability n, "CAP_41" for one newer than the table.
func CapName(n int) string {
	if n >= 0 && n < len(capabilityNames) {
		return capabilityNames[n]
	}
	return fmt.Sprintf("CAP_%d", n)
}

// CapMask makes of names the set of capset(2), bit n for capability n.
// Unknown names are left out and returned.
func CapMask(names []string) (mask uint64, unknown []string) {
	for _, name := range names {
		n, err := CapNumber(name)
		if err != nil {
			unknown = append(unknown, name)
			continue
		}
		mask |= 1 << n
	}
	return mask, unknown
}

// ApplyCaps changes base as docker's --cap-add and --cap-drop do, in whatever
// order they were given: drop ALL starts from nothing and adds, add ALL starts
// from everything and drops; otherwise drops come first, so that a capability
// both dropped and added is there. ALL in both is refused. Names are taken in
// any case and with or without CAP_; the result is in the kernel's order.
func ApplyCaps(base, add, drop []string) ([]string, error) {
	kept, _, err := capSet(base)
	if err != nil {
		return nil, err
	}
	added, addAll, err := capSet(add)
	if err != nil {
		return nil, err
	}
	dropped, dropAll, err := capSet(drop)
	if err != nil {
		return nil, err
	}
	switch {
	case addAll && dropAll:
		return nil, fmt.Errorf("ALL capabilities are both added and dropped: give one of the two")
	case addAll:
		return capNames(added &^ dropped), nil
	case dropAll:
		return capNames(added), nil
	}
	return capNames(kept&^dropped | added), nil
}

// capSet is the set of the names; all tells that ALL was among them.
func capSet(names []string) (mask uint64, all bool, err error) {
	for _, name := range names {
		if strings.EqualFold(name, "ALL") {
			mask, all = 1<<len(capabilityNames)-1, true
			continue
		}
		n, err := CapNumber(name)
		if err != nil {
			return 0, false, err
		}
		mask |= 1 << n
	}
	return mask, all, nil
}

func capNames(mask uint64) []string {
	names := []string{}
	for n, name := range capabilityNames {
		if mask&(1<<n) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func fullCapName(name string) string {
	return "CAP_" + strings.TrimPrefix(strings.ToUpper(name), "CAP_")
}

func nearestCap(name string) string {
	return slices.MinFunc(capabilityNames[:], func(a, b string) int {
		return editDistance(a, name) - editDistance(b, name)
	})
}

// editDistance counts the single letters to insert, remove or replace on the
// way from a to b (Levenshtein), of which only the first 64 bytes count.
func editDistance(a, b string) int {
	b = b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
