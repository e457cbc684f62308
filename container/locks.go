package container

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockOwner names the process that holds a lock on the file, as /proc/locks
// shows it; "" when that isn't known.
func lockOwner(fd int) string {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return ""
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	data, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(data)) {
		// "1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF" (proc_locks(5))
		f := strings.Fields(line)
		if len(f) >= 6 && f[5] == id {
			return " (process " + f[4] + ")"
		}
	}
	return ""
}
