package main

import (
	"errors"
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wolffia.dev/container/doctor"
)

// What is declared is explained, and the examples are understood.
func TestDoctorHelp(t *testing.T) {
	var declared []string
	(&examination{}).flagSet().VisitAll(func(f *flag.Flag) { declared = append(declared, f.Name) })
	told := flagsIn(doctorFlagHelp)
	slices.Sort(told)
	if !slices.Equal(declared, told) {
		t.Errorf("declared %q, told of %q", declared, told)
	}
	text := doctorHelp()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 121 || strings.Contains(line, "\t") || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, name := range slices.Concat(doctor.Names(), doctor.Pretences()) {
		if !strings.Contains(text, name) {
			t.Errorf("%s isn't in the help text", name)
		}
	}
	examples := regexp.MustCompile(`(?m)^  wolffia doctor *(.*)$`).FindAllStringSubmatch(doctorExamples, -1)
	for _, m := range examples {
		line, _, _ := strings.Cut(m[1], " | ")
		if _, err := parseDoctor(strings.Fields(line)); err != nil {
			t.Errorf("wolffia doctor %s: %v", line, err)
		}
	}
	if len(examples) < 4 {
		t.Errorf("%d examples", len(examples))
	}
}

func TestDoctorUsage(t *testing.T) {
	for _, line := range []string{"--nonsense", "word", "--prove cpu", "--prove memory --pretend no-tun", "--probe"} {
		var usage *usageError
		if _, err := parseDoctor(strings.Fields(line)); !errors.As(err, &usage) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
