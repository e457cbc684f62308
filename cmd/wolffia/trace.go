package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// trace is `wolffia trace`: run, and then the table of what each step did.
func trace(args []string) (int, error) {
	req, err := parse("trace", args)
	if errors.Is(err, flag.ErrHelp) {
		return verbHelp("trace"), nil
	}
	if err != nil {
		return container.ExitLauncher, err
	}
	code, c, err := req.execute()
	if plan, report := traced(c, err); report != nil {
		err = errors.Join(err, req.writeTrace(plan, report))
	}
	return code, err
}

// writeTrace prints the table where it was asked for: the program's own output
// goes to stdout too.
func (r *request) writeTrace(plan *container.Plan, report *nsexec.Report) error {
	var text bytes.Buffer
	if r.json {
		if err := writeJSON(&text, traceJSON(plan, report)); err != nil {
			return err
		}
	} else {
		tracePlan(&text, plan, report)
	}
	if r.output == "" {
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	return container.WriteTo("--output", r.output, text.Bytes())
}

// traced finds the report, also of a start that failed.
func traced(c *container.Container, err error) (*container.Plan, *nsexec.Report) {
	if c != nil {
		return c.Plan, c.Report
	}
	var start *container.StartError
	if errors.As(err, &start) && start.Report != nil {
		return start.Plan, start.Report
	}
	return nil, nil
}

// tracePlan prints both lanes in the order in which their steps began.
func tracePlan(w io.Writer, p *container.Plan, r *nsexec.Report) {
	fmt.Fprintf(w, "\n%10s %10s  %-5s %-9s %s\n", "at µs", "took µs", "step", "returned", "call")
	h, c := 0, 0
	for h < len(r.Host) || c < len(r.Child) {
		if c >= len(r.Child) || h < len(r.Host) && (!r.Child[c].Started || r.Host[h].Started && r.Host[h].Start <= r.Child[c].Start) {
			traceLine(w, r.Clock, r.Host[h], fmt.Sprintf("H%d", h+1), p.Host[h].String())
			h++
			continue
		}
		traceLine(w, r.Clock, r.Child[c], fmt.Sprint(c+1), callText(p.Child[c]))
		c++
	}
	traceTotals(w, r)
	printNotes(w, slices.Concat(p.Notes, r.Notes))
}

func traceLine(w io.Writer, clock nsexec.Clock, r nsexec.Result, step, call string) {
	switch {
	case !r.Started:
		return
	case !r.Ran:
		fmt.Fprintf(w, "%10.1f %10s  %-5s %-9s %s\n", micros(clock.Since(r.Start)), "", step, "", call)
	default:
		fmt.Fprintf(w, "%10.1f %10.1f  %-5s %-9s %s\n", micros(clock.Since(r.Start)), micros(clock.Duration(r.End-r.Start)), step, nsexec.ReturnText(r.Ret), call)
	}
}

// traceTotals sums up. Waiting at gates and for helpers is not work.
func traceTotals(w io.Writer, r *nsexec.Report) {
	total := r.Clock.Time1.Sub(r.Clock.Time0)
	var child time.Duration
	made := 0
	for _, s := range r.Child {
		if s.Ran {
			child += r.Clock.Duration(s.End - s.Start)
			made++
		}
	}
	fmt.Fprintf(w, "\n%d system calls of the child took %.1f µs, the start from its first step to execve %.1f µs.\n", made, micros(child), micros(total))
	fmt.Fprintf(w, "Ticks of the CPU's counter, %.3f for each ns; the two ends of a step may be read on different CPUs.\n",
		float64(r.Clock.Tick1-r.Clock.Tick0)/float64(total.Nanoseconds()))
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// tracedStep is one line of trace --json.
type tracedStep struct {
	Lane   string `json:"lane"`
	Step   int    `json:"step"` // from 1
	Name   string `json:"name"`
	Call   string `json:"call"`
	Return *int64 `json:"return,omitempty"` // absent: it never returned
	Errno  string `json:"errno,omitempty"`
	AtNS   int64  `json:"at_ns"`
	TookNS int64  `json:"took_ns"`
}

func traceJSON(p *container.Plan, r *nsexec.Report) map[string]any {
	steps := []tracedStep{}
	add := func(lane string, i int, res nsexec.Result, name, call string) {
		if !res.Started {
			return
		}
		s := tracedStep{Lane: lane, Step: i + 1, Name: name, Call: call, AtNS: r.Clock.Since(res.Start).Nanoseconds()}
		if res.Ran {
			s.Return, s.TookNS = &res.Ret, r.Clock.Duration(res.End-res.Start).Nanoseconds()
		}
		if e := res.Errno(); e != 0 {
			s.Errno = nsexec.ErrnoName(e)
		}
		steps = append(steps, s)
	}
	for i, res := range r.Host {
		add("host", i, res, p.Host[i].Name, p.Host[i].String())
	}
	for i, res := range r.Child {
		add("child", i, res, p.Child[i].Name, callText(p.Child[i]))
	}
	return map[string]any{"steps": steps, "total_ns": r.Clock.Time1.Sub(r.Clock.Time0).Nanoseconds(), "notes": slices.Concat(p.Notes, r.Notes)}
}
