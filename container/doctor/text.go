package doctor

import (
	"fmt"
	"io"
	"strings"
)

// WriteChecks writes a line for each check: name, state, and what was found or
// why not. What mends it stands below, behind an arrow.
func WriteChecks(w io.Writer, checks []Check) {
	for _, c := range checks {
		lines := c.lines()
		fmt.Fprintf(w, "%-18s %-11s %s\n", c.Name, c.State, lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(w, "%-30s %s\n", "", l)
		}
	}
}

func (c Check) lines() []string {
	var lines []string
	text := c.Detail
	for i, cause := range c.Causes {
		if i == 0 && text != "" {
			text += "; " + cause.What
		} else if i == 0 {
			text = cause.What
		} else {
			text = "or " + cause.What
		}
		lines = append(append(lines, text), arrow(cause.Remedy)...)
	}
	if lines == nil {
		return []string{text}
	}
	return strings.Split(strings.Join(lines, "\n"), "\n")
}

func arrow(remedy string) []string {
	if remedy == "" {
		return nil
	}
	return []string{"-> " + strings.ReplaceAll(remedy, "\n", "\n   ")}
}

// Write writes the whole report.
func (r *Report) Write(w io.Writer) {
	if len(r.Pretended) > 0 {
		fmt.Fprintf(w, "Pretended: %s. Nothing of this machine is changed, and no container is started.\n\n", strings.Join(r.Pretended, ", "))
	}
	WriteChecks(w, r.Checks)
	fmt.Fprintln(w)
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "%-16s %s\n", v.Feature+":", strings.ReplaceAll(v.Text, "\n", "\n"+strings.Repeat(" ", 17)))
	}
}
