package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"wolffia.dev/nsexec"
)

// ErrNoCompiler tells that this machine has no C compiler, so there is no floor
// to compare with.
var ErrNoCompiler = errors.New("bench: no floor: there is no C compiler (cc, gcc or clang) in PATH")

// A Floor is the compiled floor of one plan.
type Floor struct{ Path string }

// BuildFloor writes the plan's floor as DIR/NAME.c and compiles it to DIR/NAME.
// With libc it is linked, statically, with the C library; without, which is the
// floor proper, there is no start-up code but its own. In a virtual machine that
// traps CPUID that library's start costs more than the empty process.
func BuildFloor(plan *nsexec.Plan, dir, name string, libc bool) (*Floor, error) {
	source, err := FloorSource(plan)
	if err != nil {
		return nil, err
	}
	return compile(source, dir, name, libc)
}

// compile makes the floor DIR/NAME of its source.
func compile(source []byte, dir, name string, libc bool) (*Floor, error) {
	cc := compiler()
	if cc == "" {
		return nil, ErrNoCompiler
	}
	f := &Floor{Path: filepath.Join(dir, name)}
	if err := os.WriteFile(f.Path+".c", source, 0o644); err != nil {
		return nil, err
	}
	flags := []string{"-O2", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector", "-Wall", "-Werror", "-Wno-unused"}
	if !libc {
		flags = append(flags, "-ffreestanding", "-nostdlib")
	}
	out, err := exec.Command(cc, append(flags, "-o", f.Path, f.Path+".c")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("bench: %s %s.c: %w\n%s", cc, f.Path, err, out)
	}
	return f, nil
}

func compiler() string {
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Loop starts n containers one after the other in one process and gives the
// time of all; one more before them, and the process's own start, don't count.
func (f *Floor) Loop(n int) (time.Duration, error) { return f.total(strconv.Itoa(n)) }

// total runs the floor with arguments and reads the "N things TOTAL ns" that it prints.
func (f *Floor) total(args ...string) (time.Duration, error) {
	cmd := exec.Command(f.Path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("bench: %s %v: %w", f.Path, args, err)
	}
	fields := strings.Fields(string(out)) // "N things TOTAL ns"
	if len(fields) != 4 {
		return 0, fmt.Errorf("bench: %s %v printed %q", f.Path, args, out)
	}
	ns, err := strconv.ParseInt(fields[2], 10, 64)
	return time.Duration(ns), err
}
