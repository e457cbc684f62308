package userns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxOutput bounds what is read from getsubids, in bytes.
const maxOutput = 1 << 20

// getsubids runs getsubids(1) (shadow 4.9) for a user, who must be given by name, and returns its ranges. args is
// {"-g"} for gids. It starts the program with os.StartProcess and waits no longer than timeout for its output to
// end; a program that hasn't ended by then is killed. Nothing is left running.
func getsubids(path string, args []string, user string, timeout time.Duration) ([]Range, error) {
	argv := append(append([]string{"getsubids"}, args...), user)
	output, err := RunForOutput(path, argv, timeout)
	ranges, rest := parseGetsubids(output, strings.Join(append([]string{path}, argv[1:]...), " "))
	if err == nil && len(rest) > 0 {
		err = errors.New("output not understood")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", strings.Join(argv, " "), err, quoteRest(rest))
	}
	return ranges, nil
}

func quoteRest(rest []string) string {
	if len(rest) == 0 {
		return ""
	}
	text := rest[0]
	if len(text) > 200 {
		text = text[:200]
	}
	return fmt.Sprintf(" (it said %q)", text)
}

// parseGetsubids reads lines like "0: alice 100000 65536". Other lines, which are messages, are returned as rest.
func parseGetsubids(output, source string) (ranges []Range, rest []string) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) == 4 && strings.HasSuffix(fields[0], ":") {
			if parsed, err := subIDOf(fields[1], fields[2], fields[3]); err == nil {
				ranges = append(ranges, Range{parsed.Start, parsed.Count, source})
				continue
			}
		}
		rest = append(rest, strings.TrimSpace(line))
	}
	return ranges, rest
}

// RunForOutput runs a program with /dev/null as its input and one pipe for its output and messages, which it returns. A
// program whose output has not ended after timeout is killed; nothing is left running. Package os/exec would cost each
// start of a program that links it.
func RunForOutput(path string, argv []string, timeout time.Duration) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", errors.Join(err, w.Close())
	}
	child, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{null, w, w}})
	err = errors.Join(err, null.Close(), w.Close()) // the child has its own; ours would keep the pipe open for ever
	if child == nil {
		return "", err
	}
	output, readErr := readUntil(r, timeout)
	if readErr != nil {
		readErr = fmt.Errorf("no end of output within %v: %w", timeout, readErr)
		_ = child.Kill() // it may have ended meanwhile: the read error says what went wrong
	}
	state, waitErr := child.Wait()
	if readErr == nil && waitErr == nil && !state.Success() {
		waitErr = errors.New(state.String())
	}
	return output, errors.Join(err, readErr, waitErr)
}

func readUntil(r *os.File, timeout time.Duration) (string, error) {
	if err := r.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	var output bytes.Buffer
	_, err := io.Copy(&output, io.LimitReader(r, maxOutput))
	return output.String(), err
}
