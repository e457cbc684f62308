package main

import (
	"os"
	"os/signal"

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

// to passes signals on to a container. It never returns.
func (r *relay) to(c *container.Container) {
	for s := range r.caught {
		c.Signal(s.(unix.Signal))
	}
}
