package doctor

import (
	"strings"
)

// A Verdict is what a feature comes to.
type Verdict struct {
	Feature string `json:"feature"`
	OK      bool   `json:"ok"`
	Text    string `json:"verdict"`
}

// Report is everything that is told.
type Report struct {
	Works     bool      `json:"works"` // run with its defaults: `true` ran in such a container, or, pretended, would have
	Pretended []string  `json:"pretended,omitempty"`
	Kernel    string    `json:"kernel"`
	UID       int       `json:"uid"`
	Checks    []Check   `json:"checks"`
	Verdicts  []Verdict `json:"verdicts"`
}

// Diagnose examines all facts. It is pure.
func Diagnose(f *Facts) *Report {
	r := &Report{Kernel: f.Kernel, UID: f.UID, Checks: Examine(f)}
	run := f.judgeRun(r.Checks)
	r.Works = run.OK
	r.Verdicts = append(r.Verdicts, run,
		limitsVerdict("memory", r.check("cgroup-memory")),
		limitsVerdict("cpu", r.check("cgroup-cpu")),
		limitsVerdict("pids", r.check("cgroup-pids")),
		overlayVerdict(r.check("overlay")),
		idsVerdict(r.check("sub-ids"), r.check("id-map-helpers")),
		networkVerdict(r.check("network-namespace")))
	return r
}

func (r *Report) check(name string) Check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return Check{}
}

// judgeRun goes by the container that was started. Without one it goes by the
// checks, and says so.
func (f *Facts) judgeRun(checks []Check) Verdict {
	v := Verdict{Feature: "run"}
	switch s := f.Started; {
	case s != nil && s.Err == "":
		v.OK, v.Text = true, "works: true ran in a container with every default"
		return v
	case s != nil && s.Single == "works":
		v.Text = "can't: " + s.Err + "\nwith --map single, true ran"
		return v
	case s != nil:
		v.Text = "can't: " + s.Err
		return v
	}
	for _, c := range checks {
		if c.Needed && c.State == Cant {
			v.Text = "can't: " + c.Name + ": " + c.Causes[0].What + " (no container was started)"
			return v
		}
	}
	v.OK, v.Text = true, "should work, going by the checks (no container was started)"
	return v
}

func limitsVerdict(what string, c Check) Verdict {
	v := Verdict{Feature: what + " limits"}
	switch {
	case c.State != Works:
		v.Text = "refused: " + firstCause(c)
	default:
		v.OK, v.Text = true, "in force: "+c.Detail
	}
	return v
}

func firstCause(c Check) string {
	if len(c.Causes) == 0 {
		return "it was not tried"
	}
	return c.Causes[0].What
}

func overlayVerdict(c Check) Verdict {
	if c.State == Cant {
		return Verdict{"overlay", false, "none: " + firstCause(c)}
	}
	text := "kernel"
	if where, ok := strings.CutPrefix(c.Detail, "by the kernel, "); ok {
		text += ", " + where
	}
	return Verdict{"overlay", true, text}
}

func idsVerdict(ids, helpers Check) Verdict {
	for _, c := range []Check{ids, helpers} {
		if c.State == Cant {
			return Verdict{"ids", false, "one alone (--map single): " + firstCause(c)}
		}
	}
	return Verdict{"ids", true, ids.Detail}
}

func networkVerdict(ns Check) Verdict {
	if ns.State == Cant {
		return Verdict{"network", false, "host alone (--share net): " + firstCause(ns)}
	}
	return Verdict{"network", true, "none (a namespace with lo), or host (--share net); no driver is built yet"}
}
