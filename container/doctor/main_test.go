package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/test/filter"
)

// TestMain probes below a filter, or in another's namespaces, and prints the
// checks when its variable is set. Otherwise it runs the tests and then looks for
// what they left: fds, children, folders, cgroups.
func TestMain(m *testing.M) {
	if rules, ok := os.LookupEnv("WOLFFIA_TEST_DOCTOR"); ok {
		os.Exit(probeBelow(rules))
	}
	before := len(list("/proc/self/fd"))
	code := m.Run()
	if code == 0 {
		code = left(before)
	}
	os.Exit(code)
}

// probeBelow prints the checks of a process below a filter; "" is none.
func probeBelow(rules string) int {
	if rules != "" {
		if err := filter.Install(rules); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	f, err := Probe(context.Background(), Options{})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(Diagnose(f))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

func left(before int) (code int) {
	if after := len(list("/proc/self/fd")); after > before+3 { // the runtime's epoll and event descriptors
		fmt.Printf("descriptors leaked: %d before, %d after\n", before, after)
		code = 1
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); err != unix.ECHILD {
		fmt.Printf("a child is left: %d, %v\n", pid, err)
		code = 1
	}
	for _, pattern := range []string{home() + "/.wolffia-doctor-*", os.TempDir() + "/.wolffia-doctor-*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			fmt.Println("folders are left:", found)
			code = 1
		}
	}
	return code
}

func list(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// lines of a report that a failed test shows.
func lines(r *Report) string {
	var b strings.Builder
	r.Write(&b)
	return b.String()
}
