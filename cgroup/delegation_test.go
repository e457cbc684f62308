package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Each worse machine, each controller: a placement, or a refusal with its cause
// and its remedy. Never silence.
func TestPretend(t *testing.T) {
	var b strings.Builder
	for _, facts := range []string{"v2-delegated", "systemd-user", "login-session", "v1-hybrid"} {
		f := saved(t, facts)
		before, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range append([]string{""}, Pretences()...) {
			worse := f
			if what != "" {
				worse, _ = f.Pretend(what)
			}
			fmt.Fprintf(&b, "%s %s\n", facts, what)
			for _, v := range Delegation(worse) {
				switch {
				case v.Refusal == nil && v.Placement == "", v.Refusal != nil && (v.Refusal.Cause == "" || v.Refusal.Remedy == ""):
					t.Errorf("%s %s: %+v", facts, what, v)
				case v.Refusal != nil:
					fmt.Fprintf(&b, "  %s: %s at %s\n", v.Controller, v.Refusal.Reason, v.Refusal.Path)
				default:
					fmt.Fprintf(&b, "  %s: %s in %s\n", v.Controller, v.Placement, v.Base)
				}
			}
		}
		if after, err := json.Marshal(f); err != nil || string(after) != string(before) {
			t.Errorf("Pretend changed what it was called on: %v", err)
		}
	}
	golden(t, "testdata/pretend.txt", b.String())
	if _, ok := saved(t, "v2-delegated").Pretend("nonsense"); ok {
		t.Error("nonsense is a pretence")
	}
}

func TestParsePath(t *testing.T) {
	for text, want := range map[string][2]string{
		"/a/b": {"/a", "b"}, "/b": {"/", "b"}, "b": {"", "b"}, "a/b/": {"a", "b"}, "/a/../b": {"/", "b"},
		"user.slice:libpod:abc": {"", "libpod-abc"}, "::abc": {"", "abc"}, "/a:b:c": {"/", "a:b:c"},
	} {
		if parent, name, err := ParsePath(text); err != nil || parent != want[0] || name != want[1] {
			t.Errorf("%s: %q %q %v", text, parent, name, err)
		}
	}
	for _, text := range []string{"", "/", ".", "..", "../a", "a:b:"} {
		var fault *ValueError
		if _, _, err := ParsePath(text); !errors.As(err, &fault) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
