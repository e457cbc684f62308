package mount

import (
	"slices"
	"strings"
	"testing"
)

// splitOptions is ovl_next_opt(): options end at a comma without a backslash.
func splitOptions(data string) (options []string) {
	start := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case ',':
			options = append(options, data[start:i])
			start = i + 1
		}
	}
	return append(options, data[start:])
}

// splitLower is ovl_split_lowerdirs(): layers end at a colon without a
// backslash, and a backslash is dropped from before any character.
func splitLower(value string) (layers []string) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch {
		case value[i] == ':':
			layers = append(layers, b.String())
			b.Reset()
			continue
		case value[i] == '\\' && i+1 < len(value):
			i++
		}
		b.WriteByte(value[i])
	}
	return append(layers, b.String())
}

// escapesUndone is ovl_unescape(), for upperdir and workdir: a backslash is
// dropped from before any character.
func escapesUndone(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

func checkOptions(t *testing.T, lower []string, upper, work string) {
	t.Helper()
	data := Overlay{Lower: lower}.Options(upper, work)
	options := splitOptions(data)
	if len(options) != 4 || options[3] != "userxattr" {
		t.Fatalf("%q are the options %q", data, options)
	}
	values := map[string]string{}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		values[key] = value
	}
	if got := splitLower(values["lowerdir"]); !slices.Equal(got, lower) {
		t.Errorf("lower layers %q come back from %q as %q", lower, data, got)
	}
	for key, want := range map[string]string{"upperdir": upper, "workdir": work} {
		if got := escapesUndone(values[key]); got != want {
			t.Errorf("%s %q comes back from %q as %q", key, want, data, got)
		}
	}
}

// google/nsjail#183: no character of a path ends it.
func TestOptionsOfOddPaths(t *testing.T) {
	for _, test := range []struct {
		lower       []string
		upper, work string
		want        string
	}{
		{[]string{"/a"}, "/u", "/w", "lowerdir=/a,upperdir=/u,workdir=/w,userxattr"},
		{[]string{"/a", "/b"}, "up", "work", "lowerdir=/a:/b,upperdir=up,workdir=work,userxattr"},
		{[]string{"/a:b", "/c,d"}, "/e,f", "/g:h", `lowerdir=/a\:b:/c\,d,upperdir=/e\,f,workdir=/g\:h,userxattr`},
		{[]string{`/a\`, `/\:`}, `/u\,`, `/w\\`, `lowerdir=/a\\:/\\\:,upperdir=/u\\\,,workdir=/w\\\\,userxattr`},
		{[]string{"/a,upperdir=/etc"}, "/u", "/w", `lowerdir=/a\,upperdir=/etc,upperdir=/u,workdir=/w,userxattr`},
	} {
		if got := (Overlay{Lower: test.lower}).Options(test.upper, test.work); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		checkOptions(t, test.lower, test.upper, test.work)
	}
}

func FuzzOptions(f *testing.F) {
	for _, s := range []string{"", "a", ":", ",", `\`, `\:`, `a\\,b:c`, "lowerdir=", "ü\n =x", "a\x00b"} {
		f.Add(s, "up", `w,\`)
		f.Add("a", s, s)
	}
	f.Fuzz(func(t *testing.T, lower, upper, work string) {
		var layers []string
		for _, l := range strings.Split(lower, "\x00") {
			layers = append(layers, "/"+l)
		}
		checkOptions(t, layers, "/"+upper, "/"+work)
	})
}
