package userns

import (
	"errors"
	"testing"
)

func FuzzParseExtent(f *testing.F) {
	for _, seed := range []string{"0:0:1", "0:0", "-1:0:1", "a:b:c", "1:2:3:4:5", "4294967295:0:1", "0:4294967290:10"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExtent(text)
		var fault *ParseError
		if err != nil {
			if !errors.As(err, &fault) {
				t.Fatalf("%q: %v isn't a *ParseError", text, err)
			}
			return
		}
		if err := (IDMap{e}).Validate(); err != nil {
			t.Fatalf("%q was parsed and isn't valid: %v", text, err)
		}
		if back, err := ParseExtent(e.String()); err != nil || back != e {
			t.Fatalf("%q: %v, %v after a round trip", text, back, err)
		}
	})
}

func FuzzParseIDMap(f *testing.F) {
	for _, seed := range []string{"", "0 1000 1\n", "         0          0 4294967295\n", "0 0\n", "0 0 1\n\n", "0 0 1 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseIDMap(text)
		if err != nil {
			return
		}
		back, err := ParseIDMap(m.String())
		if err != nil || back.String() != m.String() {
			t.Fatalf("%q: %v, %v after a round trip", text, back, err)
		}
		if err := m.Validate(); err == nil && (len(m) > 340 || len(m.String()) > 4095) {
			t.Fatalf("%d lines and %d bytes are valid", len(m), len(m.String()))
		}
	})
}

func FuzzParseSubIDs(f *testing.F) {
	for _, seed := range []string{"alice:100000:65536\n", "1000:1:1", "alice:1", "#x\n\nalice:-1:1", "alice:4294967295:2", "::", "bob:1:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ranges, notes := ParseSubIDs(text, "/etc/subuid", Owner{"alice", 1000})
		for _, r := range ranges {
			if r.Count == 0 || r.span().end > maxID || r.Source == "" {
				t.Fatalf("%q gives %+v (notes %q)", text, r, notes)
			}
		}
	})
}

// Properties of SplitAt: the pieces map the same ids to the same ids, and each lies in exactly one extent of the
// parent; if there are no pieces, some id is missing.
func FuzzSplitAt(f *testing.F) {
	f.Add("0:0:100", "0:1000:1,1:100000:65536")
	f.Add("0:990:1015", "2000:5:10,0:100000:1000")
	f.Add("5:0:10,20:20:5", "20:0:5,0:100:5,5:200:15")
	f.Add("0:0:4294967295", "0:0:4294967295")
	f.Fuzz(func(t *testing.T, text, parentText string) {
		m, err1 := ParseExtents(text)
		parent, err2 := ParseExtents(parentText)
		if err1 != nil || err2 != nil || m.Validate() != nil || parent.Validate() != nil {
			return
		}
		pieces, err := m.SplitAt(parent)
		if err != nil {
			checkMissing(t, err, parent)
			return
		}
		checkPieces(t, m, pieces, parent)
	})
}

func checkMissing(t *testing.T, err error, parent IDMap) {
	var fault *NotInParentError
	if !errors.As(err, &fault) || len(fault.Missing) == 0 {
		t.Fatalf("%v names no ids", err)
	}
	for _, miss := range fault.Missing {
		for _, p := range parent {
			if p.insideSpan().overlaps(spanOf(miss.Start, miss.Count)) {
				t.Fatalf("%+v is called missing, but %s has some of it", miss, p)
			}
		}
	}
}

func checkPieces(t *testing.T, m, pieces, parent IDMap) {
	if pieces.Size() != m.Size() {
		t.Fatalf("%d ids became %d", m.Size(), pieces.Size())
	}
	for _, piece := range pieces {
		homes := 0
		for _, p := range parent {
			if p.insideSpan().intersect(piece.outsideSpan()) == piece.outsideSpan() {
				homes++
			}
		}
		if homes != 1 {
			t.Fatalf("%s lies in %d extents of %v", piece, homes, parent)
		}
		for _, offset := range []uint32{0, piece.Length - 1} {
			if out, ok := m.ToOutside(piece.Inside + offset); !ok || out != piece.Outside+offset {
				t.Fatalf("%s: inside %d was outside %d", piece, piece.Inside+offset, out)
			}
		}
	}
}

// The number of fields, the sign and the prefix of getsubids' output are checked, whatever it prints.
func FuzzParseGetsubids(f *testing.F) {
	f.Add("0: alice 100000 65536\n1: alice 200000 1\n")
	f.Add("Error fetching ranges\n")
	f.Fuzz(func(t *testing.T, text string) {
		ranges, _ := parseGetsubids(text, "getsubids")
		for _, r := range ranges {
			if r.Count == 0 || r.span().end > maxID {
				t.Fatalf("%q gives %+v", text, r)
			}
		}
	})
}
