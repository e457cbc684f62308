package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"wolffia.dev/container"
	"wolffia.dev/container/doctor"
	"wolffia.dev/nsexec"
)

// examination is a command line of doctor.
type examination struct {
	json                  bool
	probe, prove, pretend string
}

func (x *examination) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet("doctor", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&x.json, "json", false, "")
	f.StringVar(&x.probe, "probe", "", "")
	f.StringVar(&x.prove, "prove", "", "")
	f.StringVar(&x.pretend, "pretend", "", "")
	return f
}

// parseDoctor reads doctor's command line.
func parseDoctor(args []string) (*examination, error) {
	x := &examination{}
	f := x.flagSet()
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &usageError{fmt.Sprintf("doctor: %s\n  wolffia doctor --help lists the flags", flagProblem(err))}
	}
	if f.NArg() > 0 {
		return nil, &usageError{"doctor: it takes no words but flags: " + f.Arg(0) + "\n  wolffia doctor --help lists the flags"}
	}
	if x.prove != "" && x.prove != "memory" {
		return nil, &usageError{fmt.Sprintf("--prove %s: there is one proof: memory", x.prove)}
	}
	if x.prove != "" && x.pretend+x.probe != "" {
		return nil, &usageError{"--prove starts containers on this machine as it is: leave --pretend and --probe out"}
	}
	return x, nil
}

// examine is `wolffia doctor`: what this machine lets us do, why not, and what
// mends it. Exit 0 only if run with its defaults works.
func examine(args []string) (int, error) {
	x, err := parseDoctor(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(doctorHelp())
		return 0, nil
	}
	if err != nil {
		return container.ExitLauncher, err
	}
	if err := sealExe(true); err != nil { // as root, --map single maps root
		return container.ExitLauncher, err
	}
	if x.prove != "" {
		return x.proof()
	}
	return x.report()
}

func (x *examination) report() (int, error) {
	o := doctor.Options{Spawner: nsexec.NewMainSpawner()}
	var pretences []string
	if x.pretend != "" {
		pretences = strings.Split(x.pretend, ",")
		if _, err := (&doctor.Facts{}).Pretend(pretences...); err != nil { // before anything is tried
			return container.ExitLauncher, &usageError{"--pretend: " + err.Error()}
		}
	} else {
		o.Run = startFor
	}
	if x.probe != "" {
		o.Only = strings.Split(x.probe, ",")
	}
	facts, err := doctor.Probe(context.Background(), o)
	if err != nil {
		return container.ExitLauncher, &usageError{"--probe: " + err.Error()}
	}
	if facts, err = facts.Pretend(pretences...); err != nil {
		return container.ExitLauncher, err
	}
	if x.probe != "" {
		return x.checks(doctor.Examine(facts, o.Only...))
	}
	r := doctor.Diagnose(facts)
	r.Pretended = pretences
	if x.json {
		return exitOf(r.Works), writeJSON(os.Stdout, r)
	}
	r.Write(os.Stdout)
	return exitOf(r.Works), nil
}

// checks tells of some alone. Exit 0 if none of them is impossible here.
func (x *examination) checks(list []doctor.Check) (int, error) {
	ok := true
	for _, c := range list {
		ok = ok && c.State != doctor.Cant
	}
	if x.json {
		return exitOf(ok), writeJSON(os.Stdout, list)
	}
	doctor.WriteChecks(os.Stdout, list)
	return exitOf(ok), nil
}

func (x *examination) proof() (int, error) {
	p, err := doctor.ProveMemory(context.Background(), startFor)
	if err != nil {
		return container.ExitLauncher, fmt.Errorf("--prove memory: %w", err)
	}
	if x.json {
		return exitOf(p.Holds()), writeJSON(os.Stdout, p)
	}
	p.Write(os.Stdout)
	return exitOf(p.Holds()), nil
}

func exitOf(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

// startFor starts a container by run's own command line, and waits for its end.
func startFor(ctx context.Context, o doctor.RunOptions) (doctor.Ran, error) {
	var flags []string
	if o.Memory != 0 {
		flags = append(flags, "--memory", strconv.FormatInt(o.Memory, 10))
	}
	if o.Map != "" {
		flags = append(flags, "--map", o.Map)
	}
	req, err := parse("run", append(append(flags, "--"), o.Args...))
	if err != nil {
		return doctor.Ran{}, err
	}
	plan, err := req.plan()
	if err != nil {
		return doctor.Ran{}, err
	}
	c, err := container.Start(ctx, nsexec.NewMainSpawner(), plan)
	if err != nil {
		return doctor.Ran{}, err
	}
	status, err := c.Wait()
	err = errors.Join(err, c.Return())
	ran := doctor.Ran{ExitCode: c.Effective(status).ExitCode()}
	for _, e := range c.Ledger() {
		if e.Key == "memory.max" {
			ran.Limit, _ = strconv.ParseInt(e.Read, 10, 64)
		}
	}
	if death := c.Certificate; death != nil {
		ran.Peak, ran.OOMKills = int64(death.Peak), int(death.OOMKills)
	}
	return ran, err
}

const doctorFlagHelp = `flags:
  --json                print JSON; names and reason codes are stable
  --probe NAME[,…]      these checks alone; exit 0 if none of them is impossible here
  --prove memory        run the experiment: a limit of 64 MiB, 200 MiB touched; exit 0 if the limit held
  --pretend WHAT[,…]    what would be said on a worse machine; no container is started
`

func doctorHelp() string {
	return "usage: wolffia doctor [flags]\n\n" +
		"Tries each mechanism in a throw-away child, and tells what works, what works with a restriction, and what can't,\n" +
		"with the cause and, behind an arrow, what mends it. Then a verdict for each feature. Nothing is changed.\n\n" +
		doctorFlagHelp +
		"checks:\n" + wrapped(doctor.Names()) +
		"pretences:\n" + wrapped(doctor.Pretences()) +
		doctorExamples
}

const doctorExamples = `examples:
  wolffia doctor
  wolffia doctor --json | jq '.checks[] | select(.state == "cant") | .reason'
  wolffia doctor --probe cgroup-memory,overlay
  wolffia doctor --pretend yama=2,no-newuidmap
exit: 0 if run with its defaults works (true was run in such a container), 1 if not; 125 a mistake in the flags.
`

// wrapped is a list in lines that fit a terminal.
func wrapped(words []string) string {
	var b strings.Builder
	line := ""
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		}
		if len(line)+len(w) > 100 {
			b.WriteString("  " + strings.TrimSpace(line) + "\n")
			line = ""
		}
		line += w + " "
	}
	return b.String() + "  " + strings.TrimSpace(line) + "\n"
}
