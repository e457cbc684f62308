package cgroup

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is long: in an emulated machine fork and exec are slow.
const patience = 2 * time.Minute

// contained is a program in a group.
type contained struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  bytes.Buffer
	gate interface{ Write([]byte) (int, error) }
}

// start runs a program in the group, in a session of its own: born in it where
// there is a v2 cgroup, else put there while it waits at its gate, a read of
// stdin.
func start(t *testing.T, g *Group, env string, argv ...string) *contained {
	t.Helper()
	c := &contained{t: t, cmd: exec.Command(argv[0], argv[1:]...)}
	c.cmd.Env = append(os.Environ(), env)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if fd := g.FD(); fd >= 0 {
		c.cmd.SysProcAttr.UseCgroupFD, c.cmd.SysProcAttr.CgroupFD = true, fd
	}
	gate, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.end() })
	if err := g.Attach(c.cmd.Process.Pid, g.FD() >= 0); err != nil {
		t.Fatal(err)
	}
	c.gate = gate
	c.open()
	return c
}

// job runs this test binary as the program.
func job(t *testing.T, g *Group, text string) *contained {
	t.Helper()
	return start(t, g, "WOLFFIA_TEST_JOB="+text, "/proc/self/exe")
}

// shell runs a script that waits at the gate.
func shell(t *testing.T, g *Group, script string) *contained {
	t.Helper()
	return start(t, g, "X=", "/bin/sh", "-c", "read gate; "+script)
}

func (c *contained) open() { c.gate.Write([]byte(".\n")) }

// wait gives the end of the program, within patience.
func (c *contained) wait() End {
	c.t.Helper()
	overdue := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer overdue.Stop()
	c.cmd.Wait()
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return End{Signal: status.Signal()}
	}
	return End{Code: status.ExitStatus()}
}

// end kills the program's session, which is ours to kill: it is led by our child.
func (c *contained) end() {
	if c.cmd.ProcessState == nil {
		unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
		c.cmd.Wait()
	}
}

// group makes a group and removes it at the end of the test.
func group(t *testing.T, w Wish) *Group {
	t.Helper()
	f, err := Probe(ProbeOptions{Limits: w.Limits, Parent: w.Parent})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(w, f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

func limits(t *testing.T, f Flags) Limits {
	t.Helper()
	l, err := f.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
