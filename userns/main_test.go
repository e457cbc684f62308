package userns

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain serves as the child of TestNestedSplit when its variable is set, and otherwise runs the tests and then
// looks for children and descriptors that they left.
func TestMain(m *testing.M) {
	if os.Getenv("WOLFFIA_TEST_NESTED") != "" {
		nestedMain()
		return
	}
	before := openFDs()
	code := m.Run()
	if after := openFDs(); code == 0 && after > before+2 { // the runtime's epoll and event descriptors
		fmt.Printf("descriptors leaked: %d before, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// missing skips a test for lack of a fact, and fails it where nothing may be skipped.
func missing(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf("WOLFFIA_MUST_RUN is set, but missing: %s", fact)
	}
	t.Skipf("missing: %s", fact)
}

// rootOnly leaves a test to the run as root.
func rootOnly(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("runs in the run as root: it needs ids that an ordinary user can't map")
	}
}

func mustMap(t testing.TB, text string) IDMap {
	t.Helper()
	m, err := ParseExtents(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantPlanError returns err as a *PlanError with that reason and all of those words.
func wantPlanError(t testing.TB, err error, reason Reason, words ...string) {
	t.Helper()
	var fault *PlanError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a *PlanError", err)
	}
	if fault.Reason != reason {
		t.Errorf("reason %q, want %q: %v", fault.Reason, reason, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error doesn't say %q:\n%v", word, err)
		}
	}
}
