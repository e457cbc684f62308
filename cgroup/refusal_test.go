package cgroup

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// wantRefusal looks for a refusal of that reason among the errors, with all of those words.
func wantRefusal(t *testing.T, err error, reason Reason, words ...string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a *RefusedError", err)
	}
	found := slices.ContainsFunc(refused.Refusals, func(r *Refusal) bool {
		text := r.Error()
		return r.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
	if !found {
		t.Errorf("no refusal %q with %q:\n%v", reason, words, err)
	}
}
