package cgroup

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// An End is how the container's first process ended.
type End struct {
	Code   int         // exit status, when Signal is 0
	Signal unix.Signal //

	// Ours tells that the launcher itself sent that signal.
	Ours bool

	// SinceKill is how long before the end a Watch last saw an OOM kill, if there
	// was a Watch; 0 is unknown.
	SinceKill time.Duration
}

// killPatience is how long a process that the OOM killer kills may take to
// die. A SIGKILL that came later is somebody else's.
const killPatience = 10 * time.Second

// Death is what ended the container's first process.
type Death string

const (
	Exited   Death = "exit"
	Signaled Death = "signal"
	OOM      Death = "oom" // the kernel's OOM killer
)

// A Certificate tells how a container died and what the limits had to do with it.
type Certificate struct {
	Reason   Death    `json:"reason"`
	Code     int      `json:"exit_code"` // 128+N for a signal, as the shell counts
	Signal   string   `json:"signal,omitempty"`
	OOMKills uint64   `json:"oom_kills"`           // processes of the container that the OOM killer killed
	Whose    string   `json:"whose,omitempty"`     // whose limit was reached: a file, or "the machine's memory"
	Limit    string   `json:"limit,omitempty"`     // bytes
	Peak     uint64   `json:"peak,omitempty"`      // bytes; 0 is unknown
	PidsMax  uint64   `json:"pids_max_hits"`       // forks that pids.max refused
	Own      bool     `json:"own_limit,omitempty"` // it was the container's own memory.max
	PidsOwn  bool     `json:"own_pids_limit,omitempty"`
	Before   Counters `json:"before"`
	After    Counters `json:"after"`
}

// Certify reads the counters as the certificate of a container that ended. It
// is pure. A SIGKILL is the OOM killer's only if the kernel counted an OOM kill
// in the container's cgroup: exit code 137 alone doesn't tell (hashicorp/nomad#12735).
func Certify(end End, before, after Counters) Certificate {
	c := Certificate{Reason: Exited, Code: end.Code, Before: before, After: after, Peak: after.Peak, PidsMax: after.PidsMax - before.PidsMax}
	c.PidsOwn = c.PidsMax > 0 && after.pidsOwn()
	if after.Memory != nil {
		c.OOMKills = after.Memory.OOMKill
		if before.Memory != nil {
			c.OOMKills -= before.Memory.OOMKill
		}
	}
	if end.Signal != 0 {
		c.Reason, c.Code, c.Signal = Signaled, 128+int(end.Signal), unix.SignalName(end.Signal)
	}
	if c.OOMKills > 0 {
		c.Whose, c.Limit, c.Own = whose(before, after)
	}
	if end.Signal == unix.SIGKILL && c.OOMKills > 0 && !end.Ours && end.SinceKill < killPatience {
		c.Reason = OOM
	}
	return c
}

// whose limit was reached: the nearest that counted an OOM of its own. Where the
// kernel doesn't count those apart (v1, before 5.2), the nearest that was reached.
func whose(before, after Counters) (file, limit string, own bool) {
	if reached(before.local(), after.local()) {
		return "memory.max", after.Limit, true
	}
	for i, o := range after.Outer {
		var was *MemoryEvents
		if i < len(before.Outer) && before.Outer[i].File == o.File {
			was = &before.Outer[i].Local
		}
		if reached(was, &o.Local) {
			return o.File, o.Limit, false
		}
	}
	return "the machine's memory, or an outer limit that this user can't see", "", false
}

func (c Counters) local() *MemoryEvents {
	if c.MemoryLocal != nil {
		return c.MemoryLocal
	}
	return c.Memory
}

func reached(before, after *MemoryEvents) bool {
	if after == nil {
		return false
	}
	if before == nil {
		before = &MemoryEvents{}
	}
	if after.OOM > before.OOM {
		return true
	}
	countsOOM := after.OOM > 0 || after.High > 0 || after.OOMGroupKill > 0
	return !countsOOM && after.Max > before.Max
}

// String is one line for stderr; "" when the limits had nothing to do with it.
func (c Certificate) String() string {
	text := ""
	switch {
	case c.Reason == OOM:
		text = "killed: out of memory" + c.at()
	case c.OOMKills == 1:
		text = "the OOM killer killed a process of the container" + c.at() + "; its first process lived on"
	case c.OOMKills > 1:
		text = fmt.Sprintf("the OOM killer killed %d processes of the container%s; its first process lived on", c.OOMKills, c.at())
	case c.PidsMax > 0:
		return c.forks()
	default:
		return ""
	}
	if c.Peak > 0 {
		text += ", peak " + SizeText(c.Peak)
	}
	return text
}

func (c Certificate) forks() string {
	whose, forks := "another cgroup, above this container's or in it,", "1 fork"
	if c.PidsOwn {
		whose = "this container"
	}
	if c.PidsMax > 1 {
		forks = fmt.Sprintf("%d forks", c.PidsMax)
	}
	return "pids.max of " + whose + " refused " + forks + " (EAGAIN)"
}

func (c Certificate) at() string {
	text := ""
	if n, err := strconv.ParseUint(c.Limit, 10, 64); err == nil {
		text = " at " + SizeText(n)
	}
	if c.Own {
		return text + " (memory.max of this container)"
	}
	return text + " (" + c.Whose + ")"
}

// SizeText writes bytes for a person: in the largest unit that divides them, or
// with one digit behind the point.
func SizeText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	u, whole := 0, n
	for u < len(units)-1 && whole >= 1024 && whole%1024 == 0 {
		u, whole = u+1, whole/1024
	}
	if whole < 1024 || u == len(units)-1 {
		return fmt.Sprintf("%d %s", whole, units[u])
	}
	f := float64(whole)
	for ; u < len(units)-1 && f >= 1024; u++ {
		f /= 1024
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
