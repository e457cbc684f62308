package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
)

// forwarded are the signals that people send to programs. WINCH means nothing
// without a terminal of its own, and CHLD, PIPE and URG are ours.
func forwarded() []os.Signal {
	return []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT}
}

// relay catches signals from its making on and passes each on once, when there
// is a container. The container has a session of its own, so a terminal's ^C
// reaches us alone.
type relay struct {
	caught  chan os.Signal
	catches chan struct{} // closed when signals are caught
}

// newRelay begins to catch signals, beside the planning of the start.
func newRelay() *relay {
	r := &relay{make(chan os.Signal, 64), make(chan struct{})}
	go func() {
		defer close(r.catches)
		for _, s := range forwarded() {
			if !signal.Ignored(s) { // by nohup(1), say: then the program ignores it too, and needs no word of it
				signal.Notify(r.caught, s)
			}
		}
	}()
	return r
}

// ready waits until every signal is caught: before a program can tell anybody
// that it is there.
func (r *relay) ready() { <-r.catches }

// patience is how long a signal waits for a start to come to its end.
const patience = time.Second

// to passes signals on to a container, once it runs. A signal that meets a start
// is kept for the program; a start that still isn't done after a while hangs, in
// a helper say, and is given up. It never returns.
func (r *relay) to(running <-chan *container.Container, giveUp context.CancelCauseFunc) {
	var kept []os.Signal
	var late <-chan time.Time
	var c *container.Container
	for {
		select {
		case c = <-running:
			running, late = nil, nil
			for _, s := range kept {
				c.Signal(s.(unix.Signal))
			}
		case s := <-r.caught:
			if c != nil {
				c.Signal(s.(unix.Signal))
				continue
			}
			kept = append(kept, s)
			if late == nil && s != unix.SIGCONT {
				late = time.After(patience)
			}
		case <-late:
			giveUp(fmt.Errorf("%v came while the container was being started", kept[0]))
		}
	}
}
