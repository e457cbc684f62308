package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
	"wolffia.dev/nsexec"
)

// run is `wolffia run`: plan, start, pass signals on, wait, tell.
func run(args []string) (int, error) {
	req, err := parse("run", args)
	if errors.Is(err, flag.ErrHelp) {
		return verbHelp("run"), nil
	}
	if err != nil {
		return container.ExitLauncher, err
	}
	code, _, err := req.execute()
	return code, err
}

// execute runs the container of a request to its end.
func (r *request) execute() (int, *container.Container, error) {
	for flag, to := range map[string]string{"--result": r.result, "--output": r.output} {
		if err := checkTarget(flag, to); err != nil {
			return container.ExitLauncher, nil, err
		}
	}
	if err := sealExe(r.mapsRoot()); err != nil {
		return container.ExitLauncher, nil, err
	}
	signals := newRelay()
	plan, err := r.plan()
	if err != nil {
		return container.ExitLauncher, nil, r.failed(plan, err)
	}
	for _, w := range plan.Warnings() {
		fmt.Fprintln(os.Stderr, "wolffia: note: "+w)
	}
	signals.ready()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	running := make(chan *container.Container, 1)
	go signals.to(running, cancel)
	c, err := container.Start(ctx, nsexec.NewMainSpawner(), plan)
	if err != nil {
		return container.ExitLauncher, nil, r.failed(plan, err)
	}
	started := time.Now()
	running <- c
	for _, w := range c.Warnings() {
		fmt.Fprintln(os.Stderr, "wolffia: note: "+w)
	}
	status, err := c.Wait()
	err = errors.Join(err, c.Return())
	if death := c.Certificate; death != nil && death.String() != "" {
		fmt.Fprintln(os.Stderr, "wolffia: "+death.String())
	}
	if stays := c.Stays(); stays != "" {
		fmt.Fprintln(os.Stderr, "wolffia: note: "+stays)
	}
	if r.result != "" {
		result := container.NewResult(plan, nil)
		result.Ended(c, c.Effective(status), time.Since(started))
		if err := result.Write(r.result); err != nil { // the program's code is its own all the same
			fmt.Fprintln(os.Stderr, "wolffia: "+err.Error())
		}
	}
	if err != nil {
		return container.ExitLauncher, c, err
	}
	return c.Effective(status).ExitCode(), c, nil
}

// plan probes this machine and compiles.
func (r *request) plan() (*container.Plan, error) {
	facts, err := container.Probe(r.spec, &r.opts)
	if err != nil {
		return nil, err
	}
	return container.Compile(r.spec, &r.opts, facts)
}

// failed writes the result of a start that failed and gives the error back.
func (r *request) failed(plan *container.Plan, err error) error {
	if r.result == "" {
		return err
	}
	return errors.Join(err, container.NewResult(plan, err).Write(r.result))
}

// checkTarget: a descriptor that isn't open is found now, not at the end.
func checkTarget(flag, to string) error {
	var fd int
	if n, _ := fmt.Sscanf(to, "%d", &fd); n == 1 && fmt.Sprint(fd) == to {
		// One that is close-on-exec is the Go runtime's or ours.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return &usageError{flag + " " + to + ": this descriptor isn't open here"}
		}
		return nil
	}
	if to == "" {
		return nil
	}
	if st, err := os.Stat(to); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return nil // to open a pipe and close it would be the end of file to its reader
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return &usageError{flag + ": " + err.Error() + "\n  it is written there at the end: name a file in a folder of your own"}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return nil
}
