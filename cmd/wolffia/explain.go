package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// explain is `wolffia explain`: both lanes, step by step, and nothing runs.
func explain(args []string) error {
	req, err := parse("explain", args)
	if errors.Is(err, flag.ErrHelp) {
		verbHelp("explain")
		return nil
	}
	if err != nil {
		return err
	}
	if req.topic != "" {
		if req.mechanism != "" {
			return explainMechanism(os.Stdout, req.mechanism)
		}
		return explainTopic(os.Stdout, req.topic)
	}
	facts, err := req.factsHereOrThere()
	if err != nil {
		return err
	}
	if req.factsSave != "" {
		if err := saveFacts(req.factsSave, facts); err != nil || len(req.spec.Process.Args) == 0 {
			return err
		}
	}
	plan, err := container.Compile(req.spec, &req.opts, facts)
	if err != nil {
		return err
	}
	if req.json {
		return writeJSON(os.Stdout, plan)
	}
	explainPlan(os.Stdout, plan)
	return nil
}

// factsHereOrThere probes this machine, or reads what another one saved.
func (r *request) factsHereOrThere() (*container.Facts, error) {
	if r.facts == "" {
		r.opts.AllFacts = r.factsSave != ""
		return container.Probe(r.spec, &r.opts)
	}
	data, err := os.ReadFile(r.facts)
	if err != nil {
		return nil, fmt.Errorf("--facts: %w\n  make such a file with wolffia explain --facts-save FILE", err)
	}
	var f container.Facts
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("--facts %s: %w\n  make such a file with wolffia explain --facts-save FILE", r.facts, err)
	}
	if f.IDs == nil {
		return nil, fmt.Errorf("--facts %s: it holds no facts\n  make such a file with wolffia explain --facts-save FILE", r.facts)
	}
	return &f, nil
}

func saveFacts(path string, f *container.Facts) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("--facts-save: %w\n  name a file in a folder of your own", err)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// explainPlan prints a plan for a reader: each call, and below it why it is
// made, what may go wrong without harm, and where to read on.
func explainPlan(w io.Writer, p *container.Plan) {
	fmt.Fprintf(w, "The launcher's lane: %d steps, outside the container.\n\n", len(p.Host))
	for i, h := range p.Host {
		fmt.Fprintf(w, "  H%-3d %s\n", i+1, h)
		aside(w, h.Name, h.Why, h.Man)
	}
	fmt.Fprintf(w, "\nThe child's lane: %d system calls, made by the process that becomes the container.\n\n", len(p.Child))
	phases := p.Phases
	for i, s := range p.Child {
		if len(phases) > 0 && phases[0].First == i+1 {
			fmt.Fprintf(w, " - %s\n", phases[0].Name)
			phases = phases[1:]
		}
		fmt.Fprintf(w, "  %-4d %s\n", i+1, callText(s))
		aside(w, s.Name, reasonOf(s), s.ManPage())
	}
	printLimits(w, p)
	printNotes(w, p.Notes)
}

// printLimits is the ledger as it is planned: what will be written where, and
// which outer limit is reached first.
func printLimits(w io.Writer, p *container.Plan) {
	if p.Cgroup == nil || len(p.Cgroup.Ledger) == 0 {
		return
	}
	fmt.Fprintln(w, "\nLimits, each read back from the kernel before the program starts:")
	for _, e := range p.Cgroup.Ledger {
		fmt.Fprintf(w, "  - %s\n", e)
	}
}

func printNotes(w io.Writer, notes []string) {
	if len(notes) > 0 {
		fmt.Fprintln(w, "\nNotes:")
	}
	for _, n := range notes {
		fmt.Fprintf(w, "  - %s\n", n)
	}
}

// callText is the call without its policy, which aside tells in words.
func callText(s nsexec.Step) string {
	s.Policy = nsexec.Policy{}
	return s.String()
}

func reasonOf(s nsexec.Step) string {
	why := s.Why
	if len(s.Policy.Allowed) > 0 {
		names := make([]string, len(s.Policy.Allowed))
		for i, e := range s.Policy.Allowed {
			names[i] = nsexec.ErrnoName(e)
		}
		why = join(why, strings.Join(names, ", ")+fine(len(names))+s.Policy.Because)
	}
	if s.Policy.Exact {
		why = join(why, "it has to return "+nsexec.ReturnText(s.Policy.Result))
	}
	return why
}

func fine(n int) string {
	if n == 1 {
		return " is fine: "
	}
	return " are fine: "
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func aside(w io.Writer, name, why, man string) {
	text := name
	if why != "" {
		text += ": " + why
	}
	fmt.Fprintf(w, "       %s  [%s]\n", text, man)
}
