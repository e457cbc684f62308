package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"

	"wolffia.dev/bench"
	"wolffia.dev/userns"
)

// memory reads the peak memory (VmHWM) of `wolffia run` while its container
// lives: all that a start needs has been used by then. The rusage of wait4(2)
// would be the largest of the launcher, its helpers and the container.
func memory(s *settings, t *table) error {
	for _, mode := range []userns.Mode{userns.Auto, userns.Single} {
		peak := int64(0)
		for range 5 {
			p, err := peakOf(s, bench.Variant{Map: mode})
			if err != nil {
				return fmt.Errorf("peak memory: %w", err)
			}
			peak = max(peak, p)
		}
		t.value("peak memory of `wolffia run`, map="+string(mode), float64(peak)/(1<<20), 8, " MiB", "largest of five", true)
	}
	return nil
}

func peakOf(s *settings, v bench.Variant) (int64, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer inW.Close()
	defer inR.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer outR.Close()
	defer outW.Close()
	l := bench.WolffiaLaunch("wolffia", s.wolffia, v, s.rootfs, "/bin/sh", "-c", "echo up; read end")
	p, err := os.StartProcess(l.Path, append([]string{"wolffia"}, l.Args...), &os.ProcAttr{Files: []*os.File{inR, outW, os.Stderr}})
	if err != nil {
		return 0, err
	}
	outW.Close()
	_, upErr := bufio.NewReader(outR).ReadString('\n')
	peak, err := bench.Memory(strconv.Itoa(p.Pid), "VmHWM")
	inR.Close()
	inW.Close() // the container reads end of file
	if _, waitErr := p.Wait(); err == nil {
		err = waitErr
	}
	if err == nil {
		err = upErr
	}
	return peak, err
}
