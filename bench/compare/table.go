package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"wolffia.dev/bench"
)

// table collects the samples of a run and the rows made of them.
type table struct {
	series  map[string]bench.Series
	skipped map[string]string // series → why
	rows    []row
}

// row is one line of the table. goal 0 is a row for information.
type row struct {
	what           string
	goal           float64
	measured, note string
	state          string // "met", "MISSED", "not measured", ""
}

func newTable() *table {
	return &table{series: map[string]bench.Series{}, skipped: map[string]string{}}
}

func (t *table) add(name string, took time.Duration) {
	t.series[name] = append(t.series[name], took)
}

// ratio adds the row of a / b. A series without samples makes it "not measured".
func (t *table) ratio(what, a, b string, goal float64) {
	r := row{what: what, goal: goal}
	for _, name := range []string{a, b} {
		if len(t.series[name]) == 0 {
			reason, _, _ := strings.Cut(t.skipped[name], "\n")
			r.state, r.measured, r.note = "not measured", "-", fmt.Sprintf("%s: %s", name, reason)
			t.rows = append(t.rows, r)
			return
		}
	}
	ratio := bench.RatioOf(t.series[a], t.series[b])
	r.measured = fmt.Sprintf("%.2f × (%.2f to %.2f)", ratio.Value, ratio.Low, ratio.High)
	r.note = fmt.Sprintf("%s / %s ms", ms(t.series[a].Median()), ms(t.series[b].Median()))
	if goal > 0 {
		r.state = judge(ratio.Value <= goal)
	}
	t.rows = append(t.rows, r)
}

// note adds a ratio without a goal.
func (t *table) note(what, a, b string) { t.ratio(what, a, b, 0) }

// value adds a row that isn't a ratio of series.
func (t *table) value(what string, value, goal float64, unit, note string, clean bool) {
	t.rows = append(t.rows, row{what: what, goal: goal, measured: fmt.Sprintf("%.2f%s", value, unit), note: note,
		state: judge(value <= goal && clean)})
}

func judge(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func (t *table) missed() int {
	n := 0
	for _, r := range t.rows {
		if r.goal > 0 && r.state != "met" {
			n++
		}
	}
	return n
}

// ms is a time with the digits that mean something.
func ms(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%.4f", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f", d.Seconds()*1000)
}

// String is Markdown: the rows with goals, those without, and the medians.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString("| what | goal | measured (quartiles) | | medians |\n|---|---|---|---|---|\n")
	for _, r := range t.rows {
		if r.goal > 0 {
			fmt.Fprintf(&b, "| %s | ≤ %g | %s | %s | %s |\n", r.what, r.goal, r.measured, r.state, r.note)
		}
	}
	b.WriteString("\n| for information | measured (quartiles) | medians |\n|---|---|---|\n")
	for _, r := range t.rows {
		if r.goal == 0 {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.what, r.measured, r.note)
		}
	}
	b.WriteString("\n| series | median ms | samples |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(t.series)) {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", name, ms(t.series[name].Median()), len(t.series[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(t.skipped)) {
		fmt.Fprintf(&b, "\nskipped: %s: %s\n", name, t.skipped[name])
	}
	return b.String()
}

// csv is every sample.
func (t *table) csv() string {
	var b strings.Builder
	b.WriteString("series,round,ns\n")
	for _, name := range slices.Sorted(maps.Keys(t.series)) {
		for i, d := range t.series[name] {
			fmt.Fprintf(&b, "%s,%d,%d\n", name, i, d.Nanoseconds())
		}
	}
	return b.String()
}
