package main

import (
	"context"
	"fmt"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

func main() {
	spec := container.DefaultSpec()
	o := &container.Options{Root: container.Root{Kind: container.RootHost}, Map: userns.Request{Mode: userns.Auto}}
	if d := os.Getenv("ROOTFS"); d != "" {
		o.Root = container.Root{Kind: container.RootOverlay, Path: d}
	}
	if os.Getenv("SINGLE") != "" {
		o.Map.Mode = userns.Single
	}
	_ = specs.Version
	spec.Process.Args = os.Args[1:]
	f, err := container.Probe(spec, o)
	die(err)
	plan, err := container.Compile(spec, o, f)
	die(err)
	if os.Getenv("EXPLAIN") != "" {
		fmt.Print(plan.String())
	}
	s := nsexec.NewSpawner()
	c, err := container.Start(context.Background(), s, plan)
	if os.Getenv("TRACE") != "" && c != nil {
		for i, r := range c.Report.Host {
			fmt.Println(c.Report.Clock.Since(r.Start), c.Report.Clock.Duration(r.End-r.Start), plan.Host[i])
		}
		for i, r := range c.Report.Child {
			fmt.Println(c.Report.Clock.Since(r.Start), c.Report.Clock.Duration(r.End-r.Start), plan.Child[i])
		}
	}
	die(err)
	st, err := c.Wait()
	die(err)
	os.Exit(st.ExitCode())
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(125)
	}
}
