package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// launch is a launcher in a test's group: it starts a container's cgroup of its
// own and tells what it did, line by line. how is what it does then.
func launch(how string) {
	l, _ := Flags{Memory: "32m"}.Limits()
	f, err := Probe(ProbeOptions{Limits: l})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	p, err := Compile(Wish{Limits: l, Manager: Direct}, f)
	if err != nil {
		fmt.Println("refused", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	g, err := Create(context.Background(), p)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("base", g.Folders()[0].Base)
	fmt.Println("path", g.Folders()[0].Path)
	fmt.Println("own", ownV2())
	switch how {
	case "die":
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "return":
		if err := g.Remove(context.Background()); err != nil {
			fmt.Println("error", err)
		}
		if err := g.Return(); err != nil {
			fmt.Println("error", err)
		}
		fmt.Println("back", ownV2())
	}
}

func ownV2() string {
	text, _ := read("/proc/self/cgroup")
	for _, own := range parseOwn(text) {
		if own.controllers == nil {
			return Root + own.path
		}
	}
	return ""
}

// said reads the launcher's lines.
func (c *contained) said() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(c.out.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[key] = value
	}
	return m
}

// A launcher alone in its delegated cgroup moves itself into a leaf, nests the
// container below the outer limit, and undoes it all at the end
// (google/nsjail#208).
func TestVMSelfMove(t *testing.T) {
	l := limits(t, Flags{Memory: "256m"})
	onV2(t, l)
	outer := group(t, Wish{Limits: l})
	c := job(t, outer, "launch return")
	end := c.wait()
	said, folder := c.said(), outer.folders[0].Path
	if end.Code != 0 || said["error"] != "" || said["base"] != folder || !strings.HasPrefix(said["own"], folder+"/"+leafPrefix) || said["back"] != folder {
		t.Errorf("%+v in %s:\n%s", end, folder, c.out.String())
	}
	if left := children(folder); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if enabled := words(folder + "/cgroup.subtree_control"); len(enabled) > 0 {
		t.Errorf("left enabled: %q", enabled)
	}
}

// What a launcher leaves that was killed with -9, leaf and container, the next
// sweep removes (opencontainers/runc#234).
func TestVMKilledLauncher(t *testing.T) {
	l := limits(t, Flags{Memory: "256m"})
	onV2(t, l)
	outer := group(t, Wish{Limits: l})
	c := job(t, outer, "launch die")
	if end := c.wait(); end.Signal != unix.SIGKILL {
		t.Fatalf("%+v\n%s", end, c.out.String())
	}
	folder := outer.folders[0].Path
	if left := children(folder); len(left) != 2 {
		t.Errorf("before the sweep: %q", left)
	}
	removed, err := sweep(folder, os.Geteuid())
	if left := children(folder); err != nil || len(removed) != 2 || len(left) > 0 {
		t.Errorf("removed %q, left %q, %v", removed, left, err)
	}
}

// With another process in its cgroup the launcher refuses: that process stays,
// also in a cgroup that is called "main" (TracecatHQ/tracecat#3142).
func TestVMSiblingStays(t *testing.T) {
	l := limits(t, Flags{Memory: "256m"})
	onV2(t, l)
	outer := group(t, Wish{Limits: l, Name: "main"})
	sibling := job(t, outer, "hold")
	c := job(t, outer, "launch stay")
	c.wait()
	if said := c.said(); !strings.Contains(said["refused"], "other processes in it (1)") || !strings.Contains(said["refused"], outer.folders[0].Path) {
		t.Errorf("%s", c.out.String())
	}
	if list := words(outer.folders[0].Path + "/cgroup.procs"); len(list) != 1 {
		t.Errorf("the sibling was moved: %q", list)
	}
	sibling.end()
}

// A scope that systemd doesn't give is an error with what it said and a way
// around; with Try every limit is off, and said to be (systemd/systemd#40269).
func TestScopeRefused(t *testing.T) {
	tool := scopeTool()
	if tool == "" {
		missing(t, ScopeTool+", built and in PATH or beside WOLFFIA_BIN")
	}
	f := saved(t, "login-session")
	f.Scope, f.Bus.Socket = tool, t.TempDir()+"/private"
	w := Wish{Limits: limits(t, Flags{Memory: "64m"})}
	p, err := Compile(w, f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Create(t.Context(), p)
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ManagerRefused || !strings.Contains(err.Error(), "no such file") || !strings.Contains(err.Error(), "--cgroup-manager direct") {
		t.Errorf("%v", err)
	}
	p.Mode = Try
	g, err := Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if g.FD() != -1 || len(g.Folders()) != 0 || g.Ledger[0].State != NotInForce || !strings.Contains(g.Ledger[0].Cause, "no such file") {
		t.Errorf("%v", g.Ledger)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// hold says that it runs, and lives until its stdin is closed.
func hold() {
	fmt.Println("holding")
	io.Copy(io.Discard, bufio.NewReader(os.Stdin))
}
