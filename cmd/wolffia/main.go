// Wolffia starts rootless containers. A container is a syscall program: run
// executes it, explain prints it, trace times it.
//
//	main → run → container.Probe → container.Compile → container.Start → nsexec (clone3, interpreter, execve)
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"wolffia.dev/container"
)

func main() {
	os.Exit(dispatch(os.Args[1:]))
}

// dispatch calls the verb and turns its error into a message and an exit code.
func dispatch(args []string) int {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var code int
	var err error
	switch verb {
	case "run":
		code, err = run(args)
	case "explain":
		err = explain(args)
	case "trace":
		code, err = trace(args)
	case "doctor":
		code, err = examine(args)
	case "version", "--version":
		fmt.Printf("wolffia %s %s/%s, runtime-spec %s\n", version(), runtime.GOOS, runtime.GOARCH, container.DefaultSpec().Version)
	case "help", "--help", "-h", "":
		return help(args, verb == "")
	default:
		err = noVerb(verb)
	}
	return report(code, err)
}

// noVerb is the answer to a first word that isn't a verb.
func noVerb(word string) error {
	if strings.HasPrefix(word, "-") {
		return &usageError{word + ": the verb comes first: run, explain, trace, doctor, version or help\n  for example: wolffia run -- sh"}
	}
	return &usageError{fmt.Sprintf("there is no verb %q: run, explain, trace, doctor, version or help", word)}
}

// report prints an error the one way we have.
func report(code int, err error) int {
	if err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, "wolffia: "+err.Error())
	var start *container.StartError
	if errors.As(err, &start) {
		return start.Code
	}
	return container.ExitLauncher
}

// usageError is a command line that can't be understood.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += " " + s.Value[:12]
		}
	}
	return v
}
