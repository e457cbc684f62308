package cgroup

import (
	"context"
	"io"
	"os"
	"path"
	"strings"
)

// askScope runs wolffia-scope. It prints the scope's cgroup, or why there is none.
func (g *Group) askScope(ctx context.Context, s Step) error {
	out, code, err := run(ctx, s.Path, s.Argv)
	text := strings.TrimSpace(out)
	switch {
	case err != nil:
		return err
	case code != 0:
		return &Refusal{Reason: ManagerRefused, Path: s.Path, Cause: text,
			Remedy: "without D-Bus: systemd-run --user --scope -p Delegate=yes wolffia run …, or --cgroup-manager direct in a cgroup that is delegated to you"}
	}
	g.scope = path.Join(Root, text)
	for i, f := range g.folders {
		g.folders[i].Base, g.folders[i].Leaf = g.expand(f.Base), g.expand(f.Leaf)
		g.folders[i].Path, g.folders[i].Birth = g.expand(f.Path), g.expand(f.Birth)
	}
	for i := range g.Ledger {
		g.Ledger[i].File = g.expand(g.Ledger[i].File)
	}
	return nil
}

// run executes a program and gives what it wrote to stdout and stderr. Package
// os/exec would cost every start of a program that links it.
func run(ctx context.Context, file string, argv []string) (out string, code int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	p, err := os.StartProcess(file, argv, &os.ProcAttr{Files: []*os.File{nil, w, w}})
	w.Close()
	if err != nil {
		return "", 0, err
	}
	stop := context.AfterFunc(ctx, func() { p.Kill() })
	defer stop()
	data, err := io.ReadAll(io.LimitReader(r, 1<<16))
	state, waitErr := p.Wait()
	if err == nil {
		err = waitErr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", 0, err
	}
	return string(data), state.ExitCode(), nil
}
