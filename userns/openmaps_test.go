package userns

import (
	"os"
	"testing"
)

// newOpener is an Opener of one mechanism, closed at the end of the test.
func newOpener(t testing.TB, opts ...Option) *Opener {
	t.Helper()
	o, err := NewOpener(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// ownMaps are what whoever runs this test can write directly: root three extents, anybody else himself.
func ownMaps() (uid, gid IDMap) {
	if os.Geteuid() == 0 && os.Getenv("WOLFFIA_TEST_NESTED_IN") == "" {
		return IDMap{{0, 100000, 1000}, {1000, 200000, 1}, {2000, 300000, 65536}}, IDMap{{0, 400000, 1000}, {1000, 500000, 65536}, {100000, 600000, 1}}
	}
	return IDMap{{0, uint32(os.Geteuid()), 1}}, IDMap{{0, uint32(os.Getegid()), 1}}
}

// failing makes one act fail.
func failing(op actOp, err error) func(actOp) error {
	return func(now actOp) error {
		if now == op {
			return err
		}
		return nil
	}
}

func prepare(t testing.TB, o *Opener) *Maps {
	t.Helper()
	m, err := o.Prepare(ownMaps())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantMaps looks at the maps from inside.
func wantMaps(t testing.TB, fd int, uid, gid IDMap) {
	t.Helper()
	u, g, err := ReadMaps(t.Context(), fd)
	if err != nil {
		t.Fatal(err)
	}
	if u.String() != uid.String() || g.String() != gid.String() {
		t.Errorf("in force: %q and %q, want %q and %q", u, g, uid, gid)
	}
}

// rangeMaps are those of a user with sub-ids, which newuidmap and newgidmap write. They differ, or nobody would notice
// one in the other's place.
func rangeMaps(t testing.TB) (uid, gid IDMap) {
	t.Helper()
	f, err := Probe(ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := PlanMaps(Request{Mode: Auto}, f)
	if err != nil {
		missing(t, err.Error())
	}
	m.GID[len(m.GID)-1].Length--
	return m.UID, m.GID
}
