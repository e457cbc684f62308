package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"wolffia.dev/bench"
	"wolffia.dev/userns"
)

// The containers that are compared.
var (
	subIDs   = bench.Variant{Map: userns.Auto}
	singleID = bench.Variant{Map: userns.Single}
	readOnly = bench.Variant{Map: userns.Single, ReadOnly: true}
)

// processes times whole processes and fills the rows about them.
func processes(s *settings, t *table) error {
	list := contestants(s)
	for _, l := range list {
		if l.Try(); l.Skip != "" {
			t.skipped[l.Name] = l.Skip
		}
	}
	order := rand.New(rand.NewPCG(1, 2))
	for range s.rounds {
		for _, i := range order.Perm(len(list)) {
			if list[i].Skip != "" {
				continue
			}
			took, err := list[i].Time(nil)
			if err != nil {
				return err
			}
			t.add(list[i].Name, took)
			time.Sleep(pause)
		}
	}
	t.ratio("`wolffia run`, sub-ids, against the floor making the same calls", "wolffia auto", "floor auto", 1.3)
	t.ratio("the same against `crun run`", "wolffia auto", "crun auto", 0.55)
	t.ratio("single id against `crun run`", "wolffia single", "crun single", 0.35)
	t.ratio("single id, read-only root, against `bwrap` with equal namespaces and mounts", "wolffia readonly", "bwrap", 0.9)
	t.note("single id against the floor", "wolffia single", "floor single")
	t.note("single id, read-only root, against the floor", "wolffia readonly", "floor readonly")
	t.note("the last against `bwrap` that covers the same files of /proc and /sys", "wolffia readonly", "bwrap masked")
	t.note("sub-ids against the floor with a C library", "wolffia auto", "floor auto libc")
	t.note("`wolffia version`, which starts nothing, against an empty Go program", "wolffia version", "empty Go program")
	return nil
}

// pause lets the kernel take the last namespaces down, which it does on its own
// time, before the next contestant starts.
const pause = 3 * time.Millisecond

// contestants are started once in each round.
func contestants(s *settings) []*bench.Launch {
	return []*bench.Launch{
		{Name: "busybox true", Path: filepath.Join(s.rootfs, "bin/busybox"), Args: []string{"true"}},
		{Name: "empty Go program", Path: s.empty},
		{Name: "wolffia version", Path: s.wolffia, Args: []string{"version"}},
		bench.WolffiaLaunch("wolffia auto", s.wolffia, subIDs, s.rootfs, "/bin/true"),
		bench.WolffiaLaunch("wolffia single", s.wolffia, singleID, s.rootfs, "/bin/true"),
		bench.WolffiaLaunch("wolffia readonly", s.wolffia, readOnly, s.rootfs, "/bin/true"),
		floor(s, "floor auto", subIDs, false),
		floor(s, "floor single", singleID, false),
		floor(s, "floor readonly", readOnly, false),
		floor(s, "floor auto libc", subIDs, true),
		bench.CrunLaunch("crun auto", filepath.Join(s.work, "crun-auto"), s.rootfs, userns.Auto, "/bin/true"),
		bench.CrunLaunch("crun single", filepath.Join(s.work, "crun-single"), s.rootfs, userns.Single, "/bin/true"),
		bench.BwrapLaunch("bwrap", s.rootfs, false, "/bin/true"),
		bench.BwrapLaunch("bwrap masked", s.rootfs, true, "/bin/true"),
	}
}

// floor compiles the floor of a variant.
func floor(s *settings, name string, v bench.Variant, libc bool) *bench.Launch {
	l := &bench.Launch{Name: name}
	f, err := buildFloor(s, name, v, libc)
	if err != nil {
		l.Skip = err.Error()
		return l
	}
	l.Path = f.Path
	return l
}

func buildFloor(s *settings, name string, v bench.Variant, libc bool) (*bench.Floor, error) {
	plan, err := v.Plan(s.rootfs, "/bin/true")
	if err != nil {
		return nil, err
	}
	return bench.BuildFloor(&plan.Plan, s.work, strings.ReplaceAll(name, " ", "-"), libc)
}

// version is the first line of what a program says of itself.
func version(program, flag string) string {
	name := filepath.Base(program)
	out, err := exec.Command(program, flag).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return name + ": not installed"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return fmt.Sprintf("%s: %s", name, line)
}
