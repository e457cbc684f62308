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

// forwardSignals passes each signal on once. The container has a session of its
// own, so a terminal's ^C reaches us alone. It never returns.
func forwardSignals(c *container.Container) {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, forwarded()...)
	for s := range ch {
		c.Signal(s.(unix.Signal))
	}
}
