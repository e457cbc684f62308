// Command wolffia-scope asks systemd to put a process into a scope of its own,
// with everything below it delegated, and prints the scope's cgroup. wolffia
// executes it when its own cgroup isn't delegated. It links D-Bus, which every
// start of wolffia would pay for otherwise.
//
//	wolffia-scope --user --unit wolffia-1-2.scope --pid 1 --socket /run/user/1000/systemd/private
//
// It exits 0, or 1 with the reason on stderr.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"wolffia.dev/cgroup/systemd"
)

// patience is how long systemd may take.
const patience = 30 * time.Second

func main() {
	s := systemd.Scope{Description: "containers of wolffia"}
	flag.BoolVar(&s.User, "user", false, "ask the user's manager")
	system := flag.Bool("system", false, "ask the system's manager")
	flag.StringVar(&s.Unit, "unit", "", "`name` of the scope, with .scope")
	flag.StringVar(&s.Socket, "socket", "", "`path` of the manager's private socket, or of a bus")
	pid := flag.Uint("pid", 0, "the `process` to move")
	flag.Parse()
	if s.User == *system || s.Unit == "" || s.Socket == "" || *pid == 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	s.PIDs = []uint32{uint32(*pid)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path, err := systemd.Start(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
