package container

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Result is what became of a container: the JSON of --result. It settles what
// an exit code leaves open: a program that exits 125 was started.
type Result struct {
	Started  bool     `json:"started"`             // the program was executed
	ExitCode int      `json:"exit_code"`           // what the launcher exits with
	Signal   string   `json:"signal,omitempty"`    // the signal that ended the program
	Error    *Failure `json:"error,omitempty"`     // why it was not started
	Program  []string `json:"program"`             //
	PID      int      `json:"pid,omitempty"`       // of the container's first process, on the host
	StartNS  int64    `json:"start_ns,omitempty"`  // from the first step to execve
	RunNS    int64    `json:"run_ns,omitempty"`    // from execve to the end
	Weak     bool     `json:"weak_wait,omitempty"` // waited by number: a filter forbids waitid(P_PIDFD)

	Cgroup *CgroupResult  `json:"cgroup,omitempty"` // nil: no limit was asked for
	Maps   userns.Mapping `json:"maps"`
	Root   Root           `json:"root"`
	Mounts []MountResult  `json:"mounts"`
	Notes  []string       `json:"notes"` // every fallback and deviation
}

// MountResult is one mount that was asked for.
type MountResult struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// CgroupResult is what became of the limits.
type CgroupResult struct {
	Groups   []cgroup.Planned    `json:"groups"` // where they were
	Limits   cgroup.Ledger       `json:"limits"` // each that was asked for, and what the kernel said when it was read back
	Warnings []string            `json:"warnings,omitempty"`
	Death    *cgroup.Certificate `json:"death,omitempty"`
	OOMKills uint64              `json:"oom_kills"` // processes of the container that the OOM killer killed
}

// Failure is an error in parts, so that nobody has to read its text.
type Failure struct {
	Reason  string `json:"reason"` // stable: "step", "map", "input", "request", "unsupported", "idmap", "bundle", "limits", "other"
	Code    string `json:"code,omitempty"`
	Lane    string `json:"lane,omitempty"`
	Step    int    `json:"step,omitempty"` // from 1
	Name    string `json:"name,omitempty"`
	Errno   string `json:"errno,omitempty"`
	Message string `json:"message"`
}

// NewResult begins the result of a plan. plan is nil when there was none.
func NewResult(plan *Plan, err error) *Result {
	r := &Result{Mounts: []MountResult{}, Notes: []string{}}
	if plan != nil {
		r.Program, r.Maps, r.Root = plan.Spec.Process.Args, plan.Maps, plan.Options.Root
		r.Notes = append(r.Notes, plan.Notes...)
		r.Maps.Notes = nil // they are among the plan's
		for _, m := range plan.Spec.Mounts {
			r.Mounts = append(r.Mounts, MountResult{m.Destination, m.Type, m.Source, m.Options})
		}
	}
	if err != nil {
		r.Error, r.ExitCode = failure(err), ExitLauncher
		var start *StartError
		if errors.As(err, &start) {
			r.ExitCode = start.Code
		}
	}
	return r
}

// Ended completes the result of a container that ran.
func (r *Result) Ended(c *Container, status nsexec.ExitStatus, ran time.Duration) {
	r.Started, r.PID, r.RunNS, r.Weak = true, c.Process.PID, ran.Nanoseconds(), c.Process.Weak()
	r.StartNS = c.Report.Clock.Time1.Sub(c.Report.Clock.Time0).Nanoseconds()
	r.Notes = append(r.Notes, c.Report.Notes...)
	r.ExitCode = status.ExitCode()
	if status.Signal != 0 {
		r.Signal = unix.SignalName(status.Signal)
	}
	if g := c.group; g != nil {
		if g.stays != "" {
			r.Notes = append(r.Notes, g.stays)
		}
		r.Cgroup = &CgroupResult{Groups: g.Folders(), Limits: g.Ledger, Warnings: g.warnings, Death: c.Certificate}
		if c.Certificate != nil {
			r.Cgroup.OOMKills = c.Certificate.OOMKills
		}
	}
}

func failure(err error) *Failure {
	f := &Failure{Reason: "other", Message: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		f.Errno = nsexec.ErrnoName(errno)
	}
	var step *nsexec.StepError
	var plan *userns.PlanError
	var input *InputError
	var request *RequestError
	var unsupported *nsexec.UnsupportedError
	var field *UnsupportedFieldError
	var bundle *BundleError
	var idmap *mount.IDMapError
	var refused *cgroup.RefusedError
	var limit *cgroup.LimitError
	var value *cgroup.ValueError
	switch {
	case errors.As(err, &refused):
		f.Reason, f.Code = "limits", string(refused.Refusals[0].Reason)
	case errors.As(err, &limit):
		f.Reason, f.Code = "limits", "not-in-force"
	case errors.As(err, &value):
		f.Reason, f.Code = "input", value.What
	case errors.As(err, &step):
		f.Reason, f.Lane, f.Step, f.Name = "step", step.Lane, step.Index+1, step.Name
	case errors.As(err, &plan):
		f.Reason, f.Code = "map", string(plan.Reason)
	case errors.As(err, &input):
		f.Reason = "input"
	case errors.As(err, &request):
		f.Reason, f.Code = "request", request.What
	case errors.As(err, &unsupported):
		f.Reason, f.Code = "unsupported", unsupported.Feature
	case errors.As(err, &field):
		f.Reason, f.Code = "unsupported", field.Path
	case errors.As(err, &idmap):
		f.Reason, f.Code = "idmap", idmap.FSType
	case errors.As(err, &bundle):
		f.Reason = "bundle"
	}
	return f
}

// Write writes the result as JSON to a file, or to a descriptor given by number.
func (r *Result) Write(to string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return WriteTo("--result", to, append(data, '\n'))
}

// WriteTo writes what a flag asks for to a file, or to a descriptor given by
// number. A pipe that nobody reads is an error after some seconds, not a hang.
func WriteTo(flag, to string, data []byte) error {
	fd, err := strconv.Atoi(to)
	if err != nil {
		fd, err = unix.Open(to, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return &InputError{flag, to, err, ""}
		}
		defer unix.Close(fd)
	}
	for len(data) > 0 {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ready, 5000)
		if err == nil && n == 0 {
			err = unix.ETIMEDOUT
		}
		if err == nil {
			n, err = unix.Write(fd, data)
		}
		switch err {
		case nil:
			data = data[n:]
		case unix.EINTR, unix.EAGAIN:
		default:
			return &InputError{flag, to, err, "what it was to tell has happened all the same"}
		}
	}
	return nil
}
