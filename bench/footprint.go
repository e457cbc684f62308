package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Footprint is what a process holds: nothing of it may grow by starting
// containers.
type Footprint struct {
	FDs, Children, Mounts int
	RSS                   int64 // bytes, VmRSS
}

// OwnFootprint looks at this process (proc_pid_fd(5), proc_tid_children(5),
// proc_pid_mountinfo(5), proc_pid_status(5)). A child that ended and wasn't
// waited for counts.
func OwnFootprint() (Footprint, error) {
	var f Footprint
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return f, err
	}
	f.FDs = len(fds) - 1 // the one that reads the folder
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return f, err
	}
	f.Mounts = strings.Count(string(mounts), "\n")
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	for _, t := range tasks {
		children, _ := os.ReadFile(t) // the thread may be gone
		f.Children += len(strings.Fields(string(children)))
	}
	if err != nil {
		return f, err
	}
	f.RSS, err = Memory("self", "VmRSS")
	return f, err
}

// Memory reads a figure of /proc/PID/status in bytes: VmRSS, VmHWM (the peak).
func Memory(pid, key string) (int64, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == key {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("bench: no %s in /proc/%s/status", key, pid)
}
