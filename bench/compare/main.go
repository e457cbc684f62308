// Compare measures the table of goals: starts of the same container by wolffia,
// by the floor (package bench) and by the peers, interleaved in one run.
//
// # Theory of operation
//
// bench/compare.sh prepares what only root can (a cgroup2 mount and a cgroup of
// our own, which crun demands) and runs this as an ordinary user. Every round
// starts everything once, in an order that changes from round to round, so that
// whatever disturbs the machine disturbs all. Whole processes are timed from
// vfork to wait; loops inside a running program are timed by workers, which are
// this program once more: one with an empty heap, one with a full one.
//
// It prints a table in Markdown: the goal, the ratio of the medians, the
// quartiles of the ratios within a round. What can't be measured here is named.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"wolffia.dev/bench"
)

// settings are the command line.
type settings struct {
	wolffia, empty, rootfs, work, csv string
	limits                            string
	rounds, loop, many, worker, held  int
	check, fds                        bool
}

func main() {
	var s settings
	flag.StringVar(&s.wolffia, "wolffia", os.Getenv("WOLFFIA_BIN"), "the built bin/wolffia")
	flag.StringVar(&s.empty, "empty", "", "a Go program that does nothing, for information")
	flag.StringVar(&s.rootfs, "rootfs", os.Getenv("WOLFFIA_ROOTFS"), "a busybox root, owned by this user")
	flag.StringVar(&s.work, "work", "", "a folder for bundles and floors (default: a temporary one)")
	flag.StringVar(&s.csv, "csv", "", "write every sample to this file: series,round,ns")
	flag.IntVar(&s.rounds, "rounds", 200, "rounds of whole processes")
	flag.IntVar(&s.loop, "loop", 20, "starts in a loop, for a fifth as many rounds")
	flag.IntVar(&s.many, "many", 1000, "containers in one process")
	flag.BoolVar(&s.check, "check", false, "exit with 1 if a goal is missed")
	flag.BoolVar(&s.fds, "fds", false, "measure user namespace fds instead of starts; as root, with root's maps")
	flag.StringVar(&s.limits, "limits", "", "measure what these flags of wolffia run add to a start")
	flag.IntVar(&s.held, "held", 0, "of a worker: hold so many user namespaces")
	flag.IntVar(&s.worker, "worker", -1, "be a worker with a heap of so many MiB")
	flag.Parse()
	if err := run(&s); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(s *settings) error {
	if s.worker >= 0 {
		return serve(s)
	}
	if s.fds {
		return compareFDs(s)
	}
	if s.rootfs == "" || s.wolffia == "" {
		return fmt.Errorf("-wolffia and -rootfs are needed; bash bench/compare.sh gives them")
	}
	if os.Getuid() == 0 {
		return fmt.Errorf("run this as an ordinary user: bash bench/compare.sh does")
	}
	if s.limits != "" {
		return compareLimits(s)
	}
	if s.work == "" {
		dir, err := os.MkdirTemp("", "wolffia-bench.")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.work = dir
	}
	t := newTable()
	for _, measure := range []func(*settings, *table) error{processes, loops, many, memory} {
		if err := measure(s, t); err != nil {
			return err
		}
	}
	return s.print(t, versions(s))
}

// print shows a table under what it was measured on, and keeps the samples.
func (s *settings) print(t *table, machine []string) error {
	fmt.Println(strings.Join(machine, "\n") + "\n\n" + t.String())
	if s.csv != "" {
		if err := os.WriteFile(s.csv, []byte(t.csv()), 0o644); err != nil {
			return err
		}
	}
	if missed := t.missed(); s.check && missed > 0 {
		return fmt.Errorf("%d goals missed or not measured", missed)
	}
	return nil
}

// versions say what was compared, and on what.
func versions(s *settings) []string {
	lines := append([]string{"cpu: " + bench.CPU()}, bench.Machine()...)
	for _, c := range [][]string{{"crun", "--version"}, {"bwrap", "--version"}, {s.wolffia, "version"}} {
		lines = append(lines, version(c[0], c[1]))
	}
	return append(lines, fmt.Sprintf("rounds: %d, loops of %d", s.rounds, s.loop))
}
