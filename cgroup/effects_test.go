package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The effects of limits, on whatever version of cgroups is delegated to us:
// TestRootDelegatedV1 and TestVMLimits run them.

// effects are run with a parent: "" where our own place will do.
func effects(t *testing.T, parent string) {
	for _, e := range []struct {
		name string
		run  func(t *testing.T, parent string)
	}{
		{"memory kills", memoryKills}, {"memory below the limit", memoryBelow}, {"operator's SIGKILL", operatorKills},
		{"PID 1 survives", childKilled}, {"pids", pidsRefuse}, {"cpu", cpuThrottles}, {"watch", watchSees},
		{"the same name again", sameNameAgain}, {"somebody's name", foreignName}, {"protection and cpuset", lessAbove}, {"sweep", sweepRemoves}, {"many", manyLeaveNothing}, {"a limit that can't be", badLimit},
		{"freeze and kill", freezeAndKill}, {"writable", writable}, {"outer limit", outerLimitWins}, {"stats", statsTell},
		{"at once", manyAtOnce}, {"attached late", attachedLate}, {"probe by trying", probeTries},
	} {
		t.Run(e.name, func(t *testing.T) { e.run(t, parent) })
	}
}

// memoryKills: 200 MB in 64 MB; the events are read before the removal
// (pelagos-containers/pelagos#343). The value read back is the one that was
// asked for (containers/crun#223).
func memoryKills(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent})
	if e := g.Ledger[0]; e.State != InForce || e.Read != "67108864" {
		t.Errorf("ledger: %s", e)
	}
	before := g.Counters()
	end := job(t, g, "touch 200m").wait()
	c := Certify(end, before, g.Counters())
	if c.Reason != OOM || c.Code != 137 || c.OOMKills != 1 || !c.Own || c.Limit != "67108864" {
		t.Errorf("certificate: %s", show(c))
	}
	if c.Peak < 60<<20 && c.Peak != 0 || c.Peak > 65<<20 {
		t.Errorf("peak %d", c.Peak)
	}
	if s := c.String(); !strings.HasPrefix(s, "killed: out of memory at 64 MiB (memory.max of this container)") {
		t.Error(s)
	}
}

func memoryBelow(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent})
	c := job(t, g, "touch 32m")
	end := c.wait()
	if cert := Certify(end, Counters{}, g.Counters()); cert.Reason != Exited || cert.Code != 0 || cert.OOMKills != 0 || cert.String() != "" {
		t.Errorf("%s\n%s", show(cert), c.out.String())
	}
}

// operatorKills: 137 alone is no OOM (hashicorp/nomad#12735).
func operatorKills(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent})
	c := job(t, g, "hold")
	c.cmd.Process.Kill()
	if cert := Certify(c.wait(), Counters{}, g.Counters()); cert.Reason != Signaled || cert.Code != 137 || cert.Signal != "SIGKILL" {
		t.Errorf("%s", show(cert))
	}
}

// childKilled: the exit code stays the program's, and the certificate tells.
func childKilled(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "48m"}), Parent: parent})
	c := shell(t, g, `echo . | WOLFFIA_TEST_JOB="touch 200m" "`+self(t)+`"; echo "child $?"; exit 7`)
	cert := Certify(c.wait(), Counters{}, g.Counters())
	if cert.Reason != Exited || cert.Code != 7 || cert.OOMKills != 1 || !strings.Contains(cert.String(), "lived on") {
		t.Errorf("%s\n%s", show(cert), c.out.String())
	}
}

// pidsRefuse: the shell is one, so that one process less can be started.
func pidsRefuse(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Pids: "12"}), Parent: parent})
	c := shell(t, g, `n=0; while [ $n -lt 30 ]; do sleep 60 & n=$((n+1)); echo started $n; done`)
	waitFor(t, "a fork that fails", func() bool { return g.Counters().PidsMax > 0 })
	c.end()
	if n := strings.Count(c.out.String(), "started"); n != 11 {
		t.Errorf("%d processes were started beside the shell, want 11:\n%s", n, c.out.String())
	}
	if s := Certify(End{}, Counters{}, g.Counters()).String(); !strings.Contains(s, "EAGAIN") {
		t.Error(s)
	}
}

func cpuThrottles(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{CPUs: "0.2"}), Parent: parent})
	shell(t, g, `while :; do :; done`)
	waitFor(t, "throttled periods", func() bool {
		s := g.Stats()
		return s.CPU != nil && s.CPU.Throttled > 2 && s.CPU.Stopped > 0
	})
}

// watchSees the kill without being asked to look.
func watchSees(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "48m"}), Parent: parent})
	w, err := g.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	type seen struct {
		events MemoryEvents
		err    error
	}
	got := make(chan seen, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		e, err := w.Wait(ctx, 0)
		got <- seen{e, err}
	}()
	c := job(t, g, "touch 200m")
	if s := <-got; s.err != nil || s.events.OOMKill != 1 {
		t.Errorf("%+v", s)
	}
	c.wait()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Wait(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing more to see: %v", err)
	}
}

// sameNameAgain: a name can be used again after an OOM (containers/crun#1092),
// also when the launcher was killed meanwhile.
func sameNameAgain(t *testing.T, parent string) {
	w := Wish{Limits: limits(t, Flags{Memory: "48m"}), Parent: parent, Name: "again"}
	for range 2 {
		g := group(t, w)
		job(t, g, "touch 200m").wait()
		forget(g)
	}
}

// foreignName: a folder that has the name that was asked for and folders of its
// own in it is somebody's, also when no process is there. It stays as it was.
func foreignName(t *testing.T, parent string) {
	w := Wish{Limits: limits(t, Flags{Memory: "48m"}), Parent: parent}
	outer := group(t, w)
	w.Parent, w.Name = outer.folders[0].Path, "theirs"
	theirs := w.Parent + "/theirs"
	for _, dir := range []string{theirs, theirs + "/a"} {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer unix.Rmdir(dir)
	}
	f, err := Probe(ProbeOptions{Limits: w.Limits, Parent: w.Parent})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(w, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), p); !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("%v", err)
	}
	if unix.Access(theirs+"/a", unix.F_OK) != nil {
		t.Error("somebody's cgroup was removed")
	}
}

// lessAbove: v2 takes a protection and CPUs that the cgroup above doesn't have to
// give. The ledger names what is left.
func lessAbove(t *testing.T, parent string) {
	outer := group(t, Wish{Limits: limits(t, Flags{Memory: "64m", CPUSetCPUs: "0"}), Parent: parent, Writable: true, Mode: Try})
	if outer.FD() < 0 {
		return // v1 has no protection, and refuses such a cpuset
	}
	in := outer.folders[0].Path
	w := Wish{Limits: limits(t, Flags{MemoryLow: "32m", CPUSetCPUs: "0-1"}), Parent: in}
	if !contains(words(in+"/cgroup.subtree_control"), "cpuset") {
		w.Limits = limits(t, Flags{MemoryLow: "32m"})
	}
	g := group(t, w)
	for i, tighter := range []string{in + "/memory.low 0", g.folders[0].Path + "/cpuset.cpus.effective 0"}[:len(w.Limits)] {
		if e := g.Ledger[i]; e.State != InForce || e.Tighter != tighter {
			t.Errorf("%s, want %s", e, tighter)
		}
	}
	if warnings, err := Settle(Require, g.Ledger); err != nil || len(warnings) != len(w.Limits) {
		t.Errorf("%q %v", warnings, err)
	}
}

// forget gives up a group as the death of its launcher does: the locks go, the
// folders stay.
func forget(g *Group) {
	for path, fd := range g.locks {
		unix.Close(fd)
		delete(g.locks, path)
	}
}

// sweepRemoves what a killed launcher left, and nothing else.
func sweepRemoves(t *testing.T, parent string) {
	w := Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent}
	alive, dead, busy := group(t, w), group(t, w), group(t, w)
	other := alive.folders[0].Base + "/somebody's"
	if err := unix.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	defer unix.Rmdir(other)
	forget(dead)
	c := job(t, busy, "hold")
	forget(busy)
	f, err := Probe(ProbeOptions{Limits: w.Limits, Parent: parent})
	if err != nil {
		t.Fatal(err)
	}
	removed, err := Sweep(f)
	if err != nil || len(removed) != 1 || removed[0] != dead.folders[0].Path {
		t.Errorf("removed %q, %v", removed, err)
	}
	for _, stays := range []string{alive.folders[0].Path, busy.folders[0].Path, other} {
		if unix.Access(stays, unix.F_OK) != nil {
			t.Errorf("%s is gone", stays)
		}
	}
	c.end()
}

// manyLeaveNothing: the folders can be busy for a moment after the end
// (opencontainers/runc#234).
func manyLeaveNothing(t *testing.T, parent string) {
	var base string
	for range 10 {
		g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m", Pids: "20"}), Parent: parent})
		base = g.folders[0].Base
		shell(t, g, "exit 0").wait()
		if err := g.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, child := range children(base) {
		if strings.HasPrefix(child, base+"/"+namePrefix) && !strings.Contains(child, leafPrefix) {
			t.Errorf("left: %s", child)
		}
	}
}

// badLimit: what the kernel doesn't take is an error with the errno, or with
// Try an entry that says so; the other limits hold.
func badLimit(t *testing.T, parent string) {
	l := limits(t, Flags{Pids: "20"}).with(Limit{Key: "x", Asked: "--nonsense", V2: []Setting{{"pids.nonsense", "1"}}, V1: []Setting{{"pids.nonsense", "1"}}})
	f, err := Probe(ProbeOptions{Limits: l, Parent: parent})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(Wish{Limits: l, Parent: parent}, f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Create(t.Context(), p)
	var step *StepError
	if !errors.As(err, &step) || !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "pids.nonsense") {
		t.Errorf("error: %v", err)
	}
	g := group(t, Wish{Limits: l, Parent: parent, Mode: Try})
	if g.Ledger[0].State != InForce || g.Ledger[1].State != NotInForce {
		t.Errorf("ledger: %v", g.Ledger)
	}
	if warnings, err := Settle(Try, g.Ledger); err != nil || len(warnings) != 1 {
		t.Errorf("%q %v", warnings, err)
	}
}

// attachedLate: a child that wasn't born in its cgroup is limited all the same,
// from its gate on (youki-dev/youki#2030).
func attachedLate(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent})
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_JOB=touch 200m")
	gate, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &contained{t: t, cmd: cmd, gate: gate}
	t.Cleanup(c.end)
	if err := g.Attach(cmd.Process.Pid, false); err != nil {
		t.Fatal(err)
	}
	c.open()
	if cert := g.Certify(c.wait()); cert.Reason != OOM {
		t.Errorf("%s", show(cert))
	}
}

// freezeAndKill: also the way before 5.14, which has no cgroup.kill.
func freezeAndKill(t *testing.T, parent string) {
	plain := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent})
	if err := plain.Freeze(t.Context()); plain.FD() < 0 && !errors.Is(err, ErrNoFreezer) {
		t.Errorf("v1 without its freezer: %v", err)
	}
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent, Freezer: true})
	c := shell(t, g, "sleep 60 & while :; do :; done")
	pid := c.cmd.Process.Pid
	waitFor(t, "two processes", func() bool { return len(words(g.folders[0].Path+"/cgroup.procs")) == 2 })
	if err := g.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := cpuTime(t, pid)
	time.Sleep(100 * time.Millisecond)
	if now := cpuTime(t, pid); now != before {
		t.Errorf("it ran while frozen: %q, %q", before, now)
	}
	if err := g.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "cpu time", func() bool { return cpuTime(t, pid) != before })
	kill := g.Kill
	if g.FD() >= 0 {
		kill = func(ctx context.Context) error { return killFrozen(ctx, g.folders[0].Path) }
	}
	for range 2 {
		if err := kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end := c.wait(); end.Signal != unix.SIGKILL {
			t.Errorf("%+v", end)
		}
		waitFor(t, "an empty cgroup", func() bool { return len(words(g.folders[0].Path+"/cgroup.procs")) == 0 })
		kill, c = g.Kill, shell(t, g, "sleep 60 & sleep 60")
	}
}

// cpuTime is utime of /proc/PID/stat, field 14 (proc(5)); the name in field 2 is "(sh)".
func cpuTime(t *testing.T, pid int) string {
	t.Helper()
	f := words("/proc/" + strconv.Itoa(pid) + "/stat")
	if len(f) < 15 {
		t.Fatalf("no process %d", pid)
	}
	return f[13] + " " + f[14]
}

// writable: the program lives one folder below its limits, and they hold.
func writable(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent, Writable: true})
	before := g.Counters()
	c := Certify(job(t, g, "touch 200m").wait(), before, g.Counters())
	if g.FD() >= 0 && c.Reason != OOM || c.Signal != "SIGKILL" {
		t.Errorf("%s", show(c))
	}
}

// outerLimitWins: the ledger names the tighter limit above, and the certificate
// whose limit it was.
func outerLimitWins(t *testing.T, parent string) {
	outer := group(t, Wish{Limits: limits(t, Flags{Memory: "48m"}), Parent: parent})
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "96m"}), Parent: outer.folders[0].Path})
	if e := g.Ledger[0]; e.State != InForce || !strings.HasSuffix(e.Tighter, " 50331648") || !strings.HasPrefix(e.Tighter, outer.folders[0].Path) {
		t.Errorf("ledger: %s", e)
	}
	if warnings, err := Settle(Require, g.Ledger); err != nil || len(warnings) != 1 {
		t.Errorf("%q %v", warnings, err)
	}
	c := g.Certify(job(t, g, "touch 200m").wait())
	if c.Reason != OOM || c.Own || !strings.HasPrefix(c.Whose, outer.folders[0].Path) || c.Limit != "50331648" {
		t.Errorf("%s: %s", c, show(c))
	}
}

// statsTell what a program uses, each part that its controllers count.
func statsTell(t *testing.T, parent string) {
	g := group(t, Wish{Limits: limits(t, Flags{Memory: "64m", CPUs: "0.5", Pids: "20"}), Parent: parent})
	c := job(t, g, "hold")
	waitFor(t, "processes and memory", func() bool {
		s := g.Stats()
		return s.Pids != nil && s.Pids.Current > 0 && s.Memory != nil && s.Memory.Current > 0 && len(s.Memory.Detail) > 0 && s.CPU != nil
	})
	if s := g.Stats(); g.FD() >= 0 && (s.CPU.Usage == 0 || s.MemoryPressure == nil) {
		t.Errorf("%s", show(s))
	}
	c.end()
}

// manyAtOnce: starts and sweeps of one user at the same time don't take each
// other's folders away.
func manyAtOnce(t *testing.T, parent string) {
	l := limits(t, Flags{Memory: "64m"})
	group(t, Wish{Limits: l, Parent: parent}) // the launcher moves now, if it has to
	f, err := Probe(ProbeOptions{Limits: l, Parent: parent})
	if err != nil {
		t.Fatal(err)
	}
	var starts, sweeps sync.WaitGroup
	done := make(chan struct{})
	sweeps.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if _, err := Sweep(f); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 4 {
		starts.Go(func() {
			for range 5 {
				startOnce(t, Wish{Limits: l, Parent: parent, Name: NewName()}, f)
			}
		})
	}
	starts.Wait()
	close(done)
	sweeps.Wait()
}

func startOnce(t *testing.T, w Wish, f *Facts) {
	p, err := Compile(w, f)
	if err != nil {
		t.Error(err)
		return
	}
	g, err := Create(t.Context(), p)
	if err != nil {
		t.Error(err)
		return
	}
	if text, err := read(g.Ledger[0].File); err != nil || strings.TrimSpace(text) != "67108864" {
		t.Errorf("%q %v", text, err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// probeTries: what the kernel says that we may do, we may; nothing is left.
func probeTries(t *testing.T, parent string) {
	o := ProbeOptions{Limits: limits(t, Flags{Memory: "64m"}), Parent: parent}
	asked, err := Probe(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Try = true
	tried, err := Probe(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range asked.Hierarchies {
		for j, folder := range h.Chain {
			if folder.Mkdir != tried.Hierarchies[i].Chain[j].Mkdir {
				t.Errorf("%s: asked %t, tried %t (%s)", folder.Path, folder.Mkdir, !folder.Mkdir, tried.Hierarchies[i].Chain[j].Denied)
			}
		}
	}
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// waitFor asks until a test's effect is there.
func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if there() {
			return
		}
	}
	t.Fatalf("%s: never", what)
}
