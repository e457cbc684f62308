package main

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var verbs = []string{"run", "explain", "trace"}

// flagsOf are the flags that the parser of a verb knows.
func flagsOf(verb string) (names []string) {
	w := &words{verb: verb}
	w.flagSet().VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// flagsIn are the flags that a help text declares: at the begin of a line.
func flagsIn(text string) (names []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  -") {
			continue
		}
		declared, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		for _, m := range regexp.MustCompile(`(?:^|, )--?([a-z][a-z-]*)`).FindAllStringSubmatch(declared, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// What is declared is explained, and what is explained is declared.
func TestHelpListsEveryFlag(t *testing.T) {
	for _, verb := range verbs {
		declared, told := flagsOf(verb), flagsIn(flagHelp+extraFlags(verb))
		for _, name := range declared {
			if !slices.Contains(told, name) {
				t.Errorf("%s: --%s is in no help text", verb, name)
			}
		}
		for _, name := range told {
			if !slices.Contains(declared, name) {
				t.Errorf("%s: the help text has --%s, and there is no such flag", verb, name)
			}
		}
		slices.Sort(told)
		if once := slices.Compact(slices.Clone(told)); len(once) != len(told) {
			t.Errorf("%s: a flag is told of twice: %q", verb, told)
		}
	}
}

// The examples and topics can be read in a terminal, and use flags that exist.
func TestHelpTexts(t *testing.T) {
	texts := map[string]string{"main": mainHelp, "flags": flagHelp}
	for _, verb := range verbs {
		texts[verb] = extraFlags(verb) + examples(verb)
	}
	for _, topic := range topics() {
		if topic.name == "" || strings.TrimSpace(topic.text) == "" {
			t.Errorf("an empty topic: %+v", topic)
		}
	}
	for name, text := range texts {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
			if strings.TrimRight(line, " ") != line || strings.Contains(line, "\t") {
				t.Errorf("%s: a tab, or blanks at the end: %q", name, line)
			}
		}
	}
}

var exampleLine = regexp.MustCompile(`(?m)^  wolffia (run|explain|trace) (.*?)(?: {2,}.*)?$`)

// The examples of the help texts are command lines that are understood.
func TestHelpExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	text := mainHelp
	for _, verb := range verbs {
		text += examples(verb)
	}
	found := 0
	for _, m := range exampleLine.FindAllStringSubmatch(text, -1) {
		if m[2] == "" || strings.Contains(m[2], "--bundle") {
			continue
		}
		line, _, _ := strings.Cut(m[2], " | ")
		line, _, _ = strings.Cut(line, " && ")
		if _, err := parse(m[1], strings.Fields(strings.ReplaceAll(line, `"$PWD:/work"`, "/here:/work"))); err != nil {
			t.Errorf("wolffia %s %s: %v", m[1], m[2], err)
		}
		found++
	}
	if found < 9 {
		t.Errorf("only %d examples in\n%s", found, text)
	}
}

func TestTopics(t *testing.T) {
	for _, name := range topicNames() {
		var b strings.Builder
		if err := explainTopic(&b, name); err != nil || b.Len() < 200 {
			t.Errorf("%s: %v: %s", name, err, b.String())
		}
		if req := parsed(t, "explain", "--topic", name); req.topic != name {
			t.Error(req.topic)
		}
	}
	if err := explainTopic(&strings.Builder{}, "no such"); err == nil || !strings.Contains(err.Error(), strings.Join(topicNames(), ", ")) {
		t.Error(err)
	}
}
