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
type relay chan os.Signal

func newRelay() relay {
	r := make(relay, 64)
	for _, s := range forwarded() {
		if !signal.Ignored(s) { // by nohup(1), say: then the program ignores it too, and needs no word of it
			signal.Notify(r, s)
		}
	}
	return r
}

// to passes signals on to a container. It never returns.
func (r relay) to(c *container.Container) {
	for s := range r {
		c.Signal(s.(unix.Signal))
	}
}
