package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"wolffia.dev/bench"
	"wolffia.dev/container"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// serve is a worker: a running Go program with a heap, which starts containers
// when told to. A line "auto N" or "single N" is answered with the nanoseconds
// that N starts took. End of file ends it.
func serve(s *settings) error {
	defer bench.BigHeap(s.worker << 20)()
	if s.fds {
		return serveFDs(s.held)
	}
	rootfs := s.rootfs
	spawner := nsexec.NewSpawner()
	plans := map[string]*container.Plan{}
	for _, v := range []bench.Variant{subIDs, singleID} {
		plan, err := v.Plan(rootfs, "/bin/true")
		if err == nil {
			_, err = bench.Loop(spawner, plan, 3)
		}
		if err != nil {
			return err
		}
		plans[string(v.Map)] = plan
	}
	return answer(func(mode string, n int) (time.Duration, error) { return bench.Loop(spawner, plans[mode], n) })
}

// answer reads lines "WHAT N" until the end of file and prints the nanoseconds
// that N of them took.
func answer(loop func(what string, n int) (time.Duration, error)) error {
	for {
		var what string
		var n int
		if _, err := fmt.Scanln(&what, &n); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		took, err := loop(what, n)
		if err != nil {
			return err
		}
		fmt.Println(took.Nanoseconds())
	}
}

// worker is the other side of serve.
type worker struct {
	process *os.Process
	in      *os.File
	out     *bufio.Scanner
	close   func()
}

// startWorker starts this program as a worker with a heap of so many MiB.
func startWorker(s *settings, heap int, more ...string) (*worker, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inR.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		inW.Close()
		return nil, err
	}
	defer outW.Close()
	p, err := os.StartProcess("/proc/self/exe", append([]string{"compare", "-worker", strconv.Itoa(heap), "-rootfs", s.rootfs}, more...),
		&os.ProcAttr{Files: []*os.File{inR, outW, os.Stderr}})
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	return &worker{p, inW, bufio.NewScanner(outR), func() { outR.Close() }}, nil
}

// loop has the worker start n containers.
func (w *worker) loop(mode userns.Mode, n int) (time.Duration, error) { return w.ask(string(mode), n) }

func (w *worker) ask(what string, n int) (time.Duration, error) {
	if _, err := fmt.Fprintf(w.in, "%s %d\n", what, n); err != nil {
		return 0, err
	}
	if !w.out.Scan() {
		return 0, fmt.Errorf("the worker ended: %v", w.out.Err())
	}
	ns, err := strconv.ParseInt(w.out.Text(), 10, 64)
	return time.Duration(ns), err
}

func (w *worker) end() {
	w.in.Close()
	w.process.Wait()
	w.close()
}
