package nsexec

import (
	"context"
	"errors"
)

// A Command is a program that runs on the host's side, beside a child:
// newuidmap(1), say.
type Command struct {
	Path string
	Argv []string
}

// RunAll starts all the commands at once, as the host lane's OpExec does, and
// waits for every one. The error joins all failures: *StepError, *ProgramError,
// or ETIMEDOUT of one that hadn't ended after 20 s. Ending the context kills
// them. notes tell of an exit status that another wait of this program took.
func (s *Spawner) RunAll(ctx context.Context, commands []Command) (notes []string, err error) {
	l := newLaunch(s, &Plan{})
	for _, c := range commands {
		if _, err = l.exec(ctx, HostStep{Name: "run " + c.Argv[0], Op: OpExec, Path: c.Path, Argv: c.Argv}); err != nil {
			l.killAll()
			return nil, err
		}
	}
	var errs []error
	for _, p := range l.programs {
		errs = append(errs, p.wait(l.report))
	}
	if err = errors.Join(errs...); err != nil && ctx.Err() != nil {
		err = cancelled(ctx, err)
	}
	return l.report.Notes, err
}
