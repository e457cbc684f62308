package bench

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes where figures come from, as "key: value" lines of Go's
// benchmark format, which benchstat keeps apart.
func Machine() []string {
	lines := []string{"kernel: " + kernel(), "cpus: " + strconv.Itoa(cpus()), "hypervisor: " + hypervisor()}
	for _, knob := range []string{"user.max_user_namespaces", "user.max_net_namespaces", "kernel.unprivileged_userns_clone",
		"kernel.apparmor_restrict_unprivileged_userns", "vm.overcommit_memory"} {
		if value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(knob, ".", "/")); err == nil {
			lines = append(lines, knob+": "+strings.TrimSpace(string(value)))
		}
	}
	for _, file := range []string{"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource"} {
		if value, err := os.ReadFile(file); err == nil {
			lines = append(lines, file[strings.LastIndexByte(file, '/')+1:]+": "+strings.TrimSpace(string(value)))
		}
	}
	return lines
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

func cpus() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0
	}
	return set.Count()
}

// CPU is the processor's name.
func CPU() string { return cpuinfo("model name") }

// hypervisor matters: where CPUID traps, each start of a glibc program pays for it.
func hypervisor() string {
	if strings.Contains(" "+cpuinfo("flags")+" ", " hypervisor ") {
		return "yes"
	}
	return "none seen"
}

func cpuinfo(key string) string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
