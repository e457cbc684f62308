package cgroup

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is the program in a container when its variable is set. Otherwise it
// runs the tests and then looks for what they left: fds, children, cgroups.
func TestMain(m *testing.M) {
	if job := os.Getenv("WOLFFIA_TEST_JOB"); job != "" {
		work(job)
		return
	}
	if bin := os.Getenv("WOLFFIA_BIN"); bin != "" {
		os.Setenv("PATH", path.Dir(bin)+":"+os.Getenv("PATH")) // wolffia-scope
	}
	before := openFDs()
	code := m.Run()
	if code == 0 {
		code = left(before)
	}
	os.Exit(code)
}

func left(before int) (code int) {
	if after := openFDs(); after > before+3 { // the runtime's epoll and event descriptors
		fmt.Printf("descriptors leaked: %d before, %d after\n", before, after)
		code = 1
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		fmt.Printf("a child is left: %d, %v\n", pid, err)
		code = 1
	}
	f, err := Probe(ProbeOptions{})
	if err != nil {
		return code
	}
	for _, h := range f.Hierarchies {
		for _, folder := range h.Chain {
			for _, child := range children(folder.Path) {
				name := path.Base(child) // a scope with its leaf ends with us
				if strings.HasPrefix(name, namePrefix+strconv.Itoa(os.Getpid())+"-") && !strings.HasSuffix(name, ".scope") {
					fmt.Println("a cgroup is left:", child)
					code = 1
				}
			}
		}
	}
	return code
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// work waits at its gate, stdin, and then does what it is told.
func work(job string) {
	var gate [1]byte
	if n, _ := os.Stdin.Read(gate[:]); n == 0 {
		os.Exit(3)
	}
	verb, arg, _ := strings.Cut(job, " ")
	switch verb {
	case "touch":
		touch(arg)
	case "hold":
		hold()
	case "launch":
		launch(arg)
	}
}

// touch writes to that much memory and tells when it is done.
func touch(size string) {
	n, err := ParseSize("touch", size)
	if err != nil {
		os.Exit(4)
	}
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		os.Exit(5)
	}
	for i := 0; i < len(mem); i += os.Getpagesize() {
		mem[i] = 1
	}
	fmt.Println("touched", size)
}

// missing skips a test for lack of a fact, and fails it where nothing may be skipped.
func missing(t testing.TB, fact string) {
	t.Helper()
	if os.Getenv("WOLFFIA_MUST_RUN") != "" {
		t.Fatalf("WOLFFIA_MUST_RUN is set, but missing: %s", fact)
	}
	t.Skipf("missing: %s", fact)
}
