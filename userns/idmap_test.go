package userns

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// containerd/containerd#5890: map strings parsed loosely.
func TestParseExtentRefuses(t *testing.T) {
	for text, field := range map[string]string{
		"":                         "extent",
		"0:0":                      "extent",
		"0:0:1:2":                  "extent",
		"1:2:3:4:5":                "extent",
		"-1:0:1":                   "inside",
		"+1:0:1":                   "inside",
		"a:b:c":                    "inside",
		"0: 1:1":                   "outside",
		"0:0x10:1":                 "outside",
		"0:1_0:1":                  "outside",
		"0:0:":                     "length",
		"0:0:4294967296":           "length",
		"0:0:0":                    "extent",
		"4294967295:0:1":           "extent",
		"0:4294967295:1":           "extent",
		"4294967290:0:10":          "extent",
		"0:4294901760:65536":       "extent",
		"99999999999999999999:0:1": "inside",
	} {
		_, err := ParseExtent(text)
		var fault *ParseError
		if !errors.As(err, &fault) {
			t.Errorf("%q: got %v, want a *ParseError", text, err)
		} else if fault.Field != field {
			t.Errorf("%q: field %q, want %q", text, fault.Field, field)
		}
	}
}

func TestIDMapText(t *testing.T) {
	m, err := ParseIDMap("         0       1000          1\n         1     100000      65536\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.String(), "0 1000 1\n1 100000 65536\n"; got != want {
		t.Errorf("String %q, want %q", got, want)
	}
	if got, want := strings.Join(m.Fields(), " "), "0 1000 1 1 100000 65536"; got != want {
		t.Errorf("Fields %q, want %q", got, want)
	}
	if m.Size() != 65537 {
		t.Errorf("Size %d", m.Size())
	}
	if _, err := ParseIDMap("0 0 1\n0 0\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want an error that names line 2", err)
	}
}

func TestIDMapTranslates(t *testing.T) {
	m := mustMap(t, "0:1000:1,1:100000:65536")
	for _, pair := range [][2]uint32{{0, 1000}, {1, 100000}, {65536, 165535}} {
		if out, ok := m.ToOutside(pair[0]); !ok || out != pair[1] {
			t.Errorf("ToOutside(%d) = %d, %v", pair[0], out, ok)
		}
		if in, ok := m.ToInside(pair[1]); !ok || in != pair[0] {
			t.Errorf("ToInside(%d) = %d, %v", pair[1], in, ok)
		}
	}
	if _, ok := m.ToOutside(65537); ok {
		t.Error("65537 isn't mapped")
	}
	if _, ok := m.ToInside(999); ok {
		t.Error("999 isn't mapped")
	}
}

func TestIDMapJSON(t *testing.T) {
	data, err := json.Marshal(mustMap(t, "0:1000:1,1:100000:65536"))
	if err != nil || string(data) != `["0:1000:1","1:100000:65536"]` {
		t.Fatalf("%s, %v", data, err)
	}
	var back IDMap
	if err := json.Unmarshal(data, &back); err != nil || back.String() != "0 1000 1\n1 100000 65536\n" {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["0:0"]`), &back); err == nil {
		t.Error("0:0 was taken")
	}
}

// lines is a map of n single ids, whose outside ids have as many digits as base.
func lines(n int, base uint32) IDMap {
	var m IDMap
	for i := range uint32(n) {
		m = append(m, Extent{i, base + 2*i, 1})
	}
	return m
}

// opencontainers/runtime-spec#693 (limits) and util-linux/util-linux#3838 (overlaps).
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      IDMap
		line   int
		reason Reason
		words  string
	}{
		{"empty", nil, 0, ReasonEmpty, "at least one"},
		{"zero length", IDMap{{0, 0, 1}, {1, 1, 0}}, 2, ReasonZeroLength, "line 2 (1:1:0)"},
		{"wrap inside", IDMap{{4294967295, 0, 1}}, 1, ReasonWrap, "4294967294"},
		{"wrap outside", IDMap{{0, 4294967290, 6}}, 1, ReasonWrap, "4294967294"},
		{"overlap inside", IDMap{{0, 1000, 1}, {5, 1, 1}, {0, 5000, 10}}, 3, ReasonOverlap, "line 1 (0:1000:1): inside ids 0 are"},
		{"overlap outside", IDMap{{0, 1000, 10}, {10, 1009, 10}}, 2, ReasonOverlap, "outside ids 1009 are in both"},
		{"341 lines", lines(341, 1), 341, ReasonTooManyLines, "at most 340 lines (since kernel 4.15; 5 before) and 4095 bytes"},
		{"324 long lines", longLines(), 241, ReasonTooLong, "at most 340 lines (since kernel 4.15; 5 before) and 4095 bytes"},
		{"340 lines", lines(340, 1), 0, "", ""},
		{"all ids", IDMap{{0, 0, 4294967295}}, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) { checkMapError(t, c.m.Validate(), c.line, c.reason, c.words) })
	}
}

// longLines are 324 lines of 16 bytes or so each.
func longLines() IDMap {
	var m IDMap
	for i := range uint32(324) {
		m = append(m, Extent{100 + i, 1000000000 + 2*i, 1})
	}
	return m[:324]
}

func checkMapError(t *testing.T, err error, line int, reason Reason, words string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	var fault *MapError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a *MapError", err)
	}
	if fault.Line != line || fault.Reason != reason || !strings.Contains(err.Error(), words) {
		t.Errorf("line %d, reason %q: %v; want line %d, %q, %q", fault.Line, fault.Reason, err, line, reason, words)
	}
}

// podman-container-tools/podman#8816: a range crosses two extents of the parent's map.
func TestSplitAt(t *testing.T) {
	parent := mustMap(t, "0:1000:1,1:100000:65536")
	for _, c := range []struct{ m, want string }{
		{"0:0:100", "0:0:1,1:1:99"},
		{"5:0:1", "5:0:1"},
		{"10:7:3", "10:7:3"},
		{"0:0:65537", "0:0:1,1:1:65536"},
		{"0:1:9,9:0:1", "0:1:9,9:0:1"},
	} {
		got, err := mustMap(t, c.m).SplitAt(parent)
		if err != nil || got.String() != mustMap(t, c.want).String() {
			t.Errorf("%s: %v, %v; want %s", c.m, got, err, c.want)
		}
	}
}

// moby/buildkit#3297: ids that the parent lacks are listed, with the line that asks for them.
func TestSplitAtMissing(t *testing.T) {
	parent := mustMap(t, "2000:5:10,0:100000:1000")
	_, err := mustMap(t, "0:0:1,1:990:1015,2000:2010:1").SplitAt(parent)
	var fault *NotInParentError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a *NotInParentError", err)
	}
	want := "line 2: ids 1000-1999; line 3: ids 2010 don't exist in this namespace, which has 0-999, 2000-2009"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// podman-container-tools/podman#8816: an unsorted parent, and an empty one.
func TestSplitAtUnsortedParent(t *testing.T) {
	got, err := mustMap(t, "0:0:30").SplitAt(mustMap(t, "20:300:10,0:100:10,10:200:10"))
	if err != nil || got.String() != "0 0 10\n10 10 10\n20 20 10\n" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := mustMap(t, "0:0:1").SplitAt(nil); err == nil {
		t.Error("a namespace without a map has no ids")
	}
}
