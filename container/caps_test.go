package container

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCapNumbers(t *testing.T) {
	names := AllCaps()
	if len(names) != unix.CAP_LAST_CAP+1 {
		t.Fatalf("%d names", len(names))
	}
	for n, name := range names {
		short := strings.TrimPrefix(name, "CAP_")
		for _, spelled := range []string{name, strings.ToLower(name), short, strings.ToLower(short)} {
			if got, err := CapNumber(spelled); got != n || err != nil {
				t.Errorf("%s is %d (%v), want %d", spelled, got, err, n)
			}
		}
		if CapName(n) != name || name == "" {
			t.Errorf("%d is %q, want %q", n, CapName(n), name)
		}
	}
	if CapName(41) != "CAP_41" || CapName(-1) != "CAP_-1" {
		t.Error("a number without a name has none made up")
	}
}

func TestUnknownCap(t *testing.T) {
	for name, nearest := range map[string]string{
		"CAP_SYSADMIN": "CAP_SYS_ADMIN", "net-raw": "CAP_NET_RAW", "CAP_KIL": "CAP_KILL", "": "CAP_BPF", "ALL": "CAP_KILL",
		strings.Repeat("A", 1<<20): "",
	} {
		_, err := CapNumber(name)
		fault := new(UnknownCapError)
		if !errors.As(err, &fault) {
			t.Errorf("%.20s: got %v", name, err)
			continue
		}
		if nearest != "" && fault.Nearest != nearest {
			t.Errorf("%s: nearest is %s, want %s", name, fault.Nearest, nearest)
		}
	}
}

func TestDefaultCaps(t *testing.T) {
	mask, unknown := CapMask(DefaultCaps())
	if mask != 0xa80425fb || unknown != nil { // what CapBnd says in a container of Docker's
		t.Errorf("mask %#x, unknown %q", mask, unknown)
	}
	if mask, unknown := CapMask([]string{"CHOWN", "CAP_FLY"}); mask != 1 || !slices.Equal(unknown, []string{"CAP_FLY"}) {
		t.Errorf("mask %#x, unknown %q", mask, unknown)
	}
}

func TestApplyCaps(t *testing.T) {
	all := strings.Join(AllCaps(), " ")
	for _, test := range []struct{ base, add, drop, want string }{
		{"kill chown", "", "", "CAP_CHOWN CAP_KILL"},
		{"kill chown", "", "CAP_KILL", "CAP_CHOWN"},
		{"kill", "net_raw", "chown", "CAP_KILL CAP_NET_RAW"},
		{"kill", "kill", "kill", "CAP_KILL"},
		{"kill chown", "net_raw", "ALL", "CAP_NET_RAW"},
		{"kill chown", "", "all", ""},
		{"kill chown", "net_raw", "all chown", "CAP_NET_RAW"},
		{"kill", "ALL", "", all},
		{"kill", "ALL", "chown", strings.TrimPrefix(all, "CAP_CHOWN ")},
		{"ALL", "", "chown", strings.TrimPrefix(all, "CAP_CHOWN ")},
	} {
		got, err := ApplyCaps(strings.Fields(test.base), strings.Fields(test.add), strings.Fields(test.drop))
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
}

func TestApplyCapsRefuses(t *testing.T) {
	for _, test := range [][3]string{{"fly", "", ""}, {"", "fly", ""}, {"", "", "fly"}, {"", "ALL", "ALL"}} {
		got, err := ApplyCaps(strings.Fields(test[0]), strings.Fields(test[1]), strings.Fields(test[2]))
		if err == nil {
			t.Errorf("%q: got %q", test, got)
		}
	}
}

func FuzzApplyCaps(f *testing.F) {
	f.Add("chown,CAP_KILL", "all", "net_raw")
	f.Add("", "sysadmin", "ALL")
	f.Fuzz(func(t *testing.T, base, add, drop string) {
		split := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
		got, err := ApplyCaps(split(base), split(add), split(drop))
		if err != nil {
			return
		}
		if again, err := ApplyCaps(got, nil, nil); err != nil || !slices.Equal(got, again) {
			t.Fatalf("%q becomes %q, %v", got, again, err)
		}
	})
}
