package container

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Signal does to the container's first process what the signal would do to an
// ordinary one. The kernel drops a signal to the first process of a pid
// namespace that has no handler for it (pid_namespaces(7)), so that `sleep`
// could not be ended by ^C: where the default action is to end the process,
// the container is killed, and the status tells the signal that was meant.
func (c *Container) Signal(sig unix.Signal) error {
	if c.isInit() && endsByDefault(sig) && !handles(c.Process.PID, sig) {
		c.meant.CompareAndSwap(0, int32(sig))
		return c.Process.Signal(unix.SIGKILL)
	}
	return c.Process.Signal(sig)
}

// Effective is the status with the signal that was meant.
func (c *Container) Effective(s nsexec.ExitStatus) nsexec.ExitStatus {
	if meant := c.meant.Load(); meant != 0 && s.Signal == unix.SIGKILL {
		s.Signal = unix.Signal(meant)
	}
	return s
}

// meantSignal is the first signal for which Signal killed the container.
type meantSignal = atomic.Int32

func (c *Container) isInit() bool {
	return c.Plan.Host[c.Plan.cloneIndex()].Flags&unix.CLONE_NEWPID != 0
}

func (p *Plan) cloneIndex() int {
	for i, h := range p.Host {
		if h.Op == nsexec.OpClone {
			return i
		}
	}
	return -1 // Validate has refused such a plan
}

func endsByDefault(sig unix.Signal) bool {
	switch sig {
	case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM:
		return true
	}
	return false
}

// handles reads whether a process catches, blocks or ignores a signal
// (proc_pid_status(5)). The pid is ours: the process is not reaped yet. What
// can't be read counts as handled, and the kernel decides.
func handles(pid int, sig unix.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "SigCgt", "SigIgn", "SigBlk":
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil || mask&(1<<(uint(sig)-1)) != 0 {
				return true
			}
		}
	}
	return false
}
