package userns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// newOpener is an Opener of one mechanism, closed at the end of the test.
func newOpener(t testing.TB, opts ...Option) *Opener {
	t.Helper()
	o, err := NewOpener(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// ownMaps are what whoever runs this test can write directly: root three extents, anybody else himself.
func ownMaps() (uid, gid IDMap) {
	if os.Geteuid() == 0 && os.Getenv("WOLFFIA_TEST_NESTED_IN") == "" {
		return IDMap{{0, 100000, 1000}, {1000, 200000, 1}, {2000, 300000, 65536}}, IDMap{{0, 400000, 1000}, {1000, 500000, 65536}, {100000, 600000, 1}}
	}
	return IDMap{{0, uint32(os.Geteuid()), 1}}, IDMap{{0, uint32(os.Getegid()), 1}}
}

// failing makes one act fail.
func failing(op actOp, err error) func(actOp) error {
	return func(now actOp) error {
		if now == op {
			return err
		}
		return nil
	}
}

func prepare(t testing.TB, o *Opener) *Maps {
	t.Helper()
	m, err := o.Prepare(ownMaps())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantMaps looks at the maps from inside.
func wantMaps(t testing.TB, fd int, uid, gid IDMap) {
	t.Helper()
	u, g, err := ReadMaps(t.Context(), fd)
	if err != nil {
		t.Fatal(err)
	}
	if u.String() != uid.String() || g.String() != gid.String() {
		t.Errorf("in force: %q and %q, want %q and %q", u, g, uid, gid)
	}
}

// rangeMaps are those of a user with sub-ids, which newuidmap and newgidmap write. They differ, or nobody would notice
// one in the other's place.
func rangeMaps(t testing.TB) (uid, gid IDMap) {
	t.Helper()
	f, err := Probe(ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := PlanMaps(Request{Mode: Auto}, f)
	if err != nil {
		missing(t, err.Error())
	}
	m.GID[len(m.GID)-1].Length--
	return m.UID, m.GID
}

// containerd/containerd#10611: the child runs nothing, is reaped, and the fd outlives it.
func TestOpen(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		t.Run(string(mechanism), func(t *testing.T) {
			defer leaks(t)()
			ownUID, ownGID := ownMaps()
			rangeUID, rangeGID := rangeMaps(t)
			for _, maps := range [][2]IDMap{{ownUID, ownGID}, {rangeUID, rangeGID}, {rangeUID, ownGID}, {ownUID, rangeGID}} {
				uid, gid := maps[0], maps[1]
				var report Report
				file, err := Open(t.Context(), uid, gid, Using(mechanism), Reporting(&report))
				if err != nil {
					t.Fatal(err)
				}
				if report.Mechanism != mechanism || len(report.Notes) > 0 {
					t.Errorf("report %+v", report)
				}
				look(t, int(file.Fd()), uid, gid)
				if err := file.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// look asks an fd for all that it tells.
func look(t *testing.T, fd int, uid, gid IDMap) {
	t.Helper()
	wantMaps(t, fd, uid, gid)
	if owner, err := OwnerUID(fd); err != nil || owner != uint32(os.Geteuid()) {
		t.Errorf("owner %d, %v", owner, err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != unix.FD_CLOEXEC {
		t.Errorf("flags %d, %v: the fd would survive an execve", flags, err)
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || link != fmt.Sprintf("user:[%d]", id(t, fd)) {
		t.Errorf("the fd is %s, %v", link, err)
	}
	parent, err := Parent(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	own, err := os.Open("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if id(t, int(parent.Fd())) != id(t, int(own.Fd())) {
		t.Error("its parent isn't our namespace")
	}
	if _, err := Parent(int(own.Fd())); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "outside") {
		t.Errorf("our own namespace's parent: %v", err)
	}
}

func id(t testing.TB, fd int) uint64 {
	t.Helper()
	n, err := ID(fd)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Questions to what is no user namespace.
func TestNotANamespace(t *testing.T) {
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	net, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	for name, ask := range map[string]func(int) error{
		"Parent":   func(fd int) error { _, err := Parent(fd); return err },
		"OwnerUID": func(fd int) error { _, err := OwnerUID(fd); return err },
		"ReadMaps": func(fd int) error { _, _, err := ReadMaps(t.Context(), fd); return err },
	} {
		for _, file := range []*os.File{null, net} {
			var typed *NamespaceError
			var step *nsexec.StepError
			if err := ask(int(file.Fd())); !errors.As(err, &typed) && !errors.As(err, &step) {
				t.Errorf("%s of %s: %v", name, file.Name(), err)
			}
		}
	}
	if _, err := ID(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("ID of nothing: %v", err)
	}
}

// 1,000 openings are 1,000 namespaces, and they leave neither fds nor children.
func TestOpenMany(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		t.Run(string(mechanism), func(t *testing.T) {
			defer leaks(t)()
			o := newOpener(t, Using(mechanism))
			defer o.Close()
			m := prepare(t, o)
			fds, seen := make([]int, 100), map[uint64]bool{}
			for range 10 {
				if err := o.OpenMany(t.Context(), m, fds); err != nil {
					t.Fatal(err)
				}
				for i := range fds {
					seen[id(t, fds[i])] = true
				}
				if len(seen)%100 != 0 {
					t.Fatalf("%d namespaces: some are the same", len(seen))
				}
				seen = map[uint64]bool{} // inodes may come again once closed
				wantMaps(t, fds[37], m.UID, m.GID)
				for i := range fds {
					closeFD(&fds[i])
				}
			}
		})
	}
}

// An opening that fails at any act, whatever it has done before, leaves nothing and names the act.
func TestOpenFaults(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		for _, maps := range []func() (uid, gid IDMap){ownMaps, func() (IDMap, IDMap) { return rangeMaps(t) }} {
			defer leaks(t)()
			o := newOpener(t, Using(mechanism))
			defer o.Close()
			m, err := o.Prepare(maps())
			if err != nil {
				t.Fatal(err)
			}
			use, err := o.mechanism()
			if err != nil {
				t.Fatal(err)
			}
			p := use.direct
			if !m.Direct() {
				p = use.helped
			}
			n := 0
			for _, acts := range [][]act{p.blank, p.fill, p.end} {
				for _, a := range acts {
					n++
					o.fault = failing(a.op, unix.EBADMSG)
					fds := []int{0, 0, 0}
					err := o.OpenMany(t.Context(), m, fds)
					var failure *OpenError
					if !errors.As(err, &failure) || !errors.Is(err, unix.EBADMSG) || failure.Step != n || failure.Total != p.len() || failure.Name != a.name {
						t.Errorf("%s, step %d %q: %v", mechanism, n, a.name, err)
					}
					if fds[0] != -1 || fds[2] != -1 {
						t.Errorf("fds %v after a failure", fds)
					}
				}
			}
		}
	}
}

// What can be known to be wrong is told before a child is made: filtered makes any attempt visible.
func TestOpenBadInput(t *testing.T) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	own := IDMap{{0, gid, 1}}
	foreign := IDMap{{0, 3_000_000_000, 1000}}
	o := newOpener(t)
	o.fault = failing(actMake, unix.EBADMSG) // an attempt would end with it
	tests := map[string]struct {
		uid    IDMap
		reason Reason
		word   string
	}{
		"nil":          {nil, ReasonEmpty, "at least one line"},
		"empty":        {IDMap{}, ReasonEmpty, "at least one line"},
		"zero size":    {IDMap{{0, uid, 0}}, ReasonZeroLength, "length is 0"},
		"wrap inside":  {IDMap{{4294967290, uid, 10}}, ReasonWrap, "4294967294"},
		"wrap outside": {IDMap{{0, 4294967290, 10}}, ReasonWrap, "4294967294"},
		"overlap":      {IDMap{{0, uid, 1}, {0, uid + 1, 1}}, ReasonOverlap, "overlaps line 1"},
		"341 lines":    {lines(341, 1), ReasonTooManyLines, "340"},
		"4096 bytes":   {sized(t, 4096), ReasonTooLong, "4095"},
	}
	for name, test := range tests {
		_, err := o.Open(t.Context(), test.uid, own)
		wantPlanError(t, fmt.Errorf("%s: %w", name, err), test.reason, test.word)
		_, err = o.Open(t.Context(), IDMap{{0, uid, 1}}, test.uid)
		wantPlanError(t, fmt.Errorf("gid, %s: %w", name, err), test.reason)
	}
	if uid != 0 {
		_, err := o.Open(t.Context(), foreign, own)
		wantPlanError(t, err, ReasonNotOurs, "not delegated")
		_, err = o.Open(t.Context(), IDMap{{0, uid, 1}}, foreign)
		wantPlanError(t, err, ReasonNotOurs)
	}
	if _, err := o.Open(t.Context(), IDMap{{0, uid, 1}}, own); !errors.Is(err, unix.EBADMSG) {
		t.Errorf("maps that are right: %v", err)
	}
	_, err := o.OpenBatch(t.Context(), IDMap{{0, uid, 1}}, own, -1)
	wantPlanError(t, err, ReasonBadRequest, "-1 user namespaces")
	if _, err := Open(t.Context(), IDMap{{0, uid, 1}}, own, Using("rfork")); !strings.Contains(fmt.Sprint(err), "rfork") {
		t.Errorf("no such mechanism: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.Open(t.Context(), IDMap{{0, uid, 1}}, own); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A context that has ended, and one that ends while a helper hangs.
func TestOpenContext(t *testing.T) {
	defer leaks(t)()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		if _, err := o.OpenRaw(ended, prepare(t, o)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", mechanism, err)
		}
		m := *prepare(t, o)
		m.UIDWriter.Helper = script(t, "exec sleep 1000")
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := o.OpenRaw(soon, &m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, with a helper that hangs: %v", mechanism, err)
		}
		cancel()
		m.UIDWriter.Helper = script(t, "")
		var nothing *NoMapError
		if _, err := o.OpenRaw(t.Context(), &m); !errors.As(err, &nothing) {
			t.Errorf("%s, with a helper that does nothing: %v", mechanism, err)
		}
	}
}

// script is a program of the shell, to stand where newuidmap does.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "newuidmap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// No fd of an opening reaches a program that another goroutine starts meanwhile.
func TestCloseOnExec(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		m, seen := prepare(t, o), 0
		o.fault = func(op actOp) error {
			for _, fd := range mustOpenFDs(t) {
				link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
				n, _ := strconv.Atoi(fd.Name())
				if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); n > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("%s, act %d: %s survives an execve", mechanism, op, link)
				}
				if strings.HasSuffix(link, "id_map") {
					seen++
				}
			}
			return nil
		}
		fd, err := o.OpenRaw(t.Context(), m)
		if err != nil || seen == 0 {
			t.Fatal(seen, err)
		}
		closeFD(&fd)
	}
}

// newuidmap and newgidmap run at once: each of these waits for the other one.
func TestHelpersAtOnce(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m, dir := *prepare(t, o), t.TempDir()
	m.UIDWriter.Helper = script(t, "cd "+dir+"; touch uid; until [ -e gid ]; do sleep 0.01; done")
	m.GIDWriter.Helper = script(t, "cd "+dir+"; touch gid; until [ -e uid ]; do sleep 0.01; done")
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var nothing *NoMapError // and neither writes a map
	if _, err := o.OpenRaw(soon, &m); !errors.As(err, &nothing) {
		t.Errorf("%v", err)
	}
}

// The raw variants allocate nothing.
func TestOpenAllocations(t *testing.T) {
	o := newOpener(t, Using(VM))
	m := prepare(t, o)
	fds := make([]int, 10)
	open := func() {
		if err := o.OpenMany(context.Background(), m, fds); err != nil {
			t.Fatal(err)
		}
		for i := range fds {
			closeFD(&fds[i])
		}
	}
	open()
	if n := testing.AllocsPerRun(20, open); n >= 1 {
		t.Errorf("%v allocations for ten namespaces", n)
	}
	p, err := o.NewPool(4)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n := testing.AllocsPerRun(20, func() {
		fd, err := p.OpenRaw(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(&fd)
	}); n >= 1 {
		t.Errorf("%v allocations for one out of the pool", n)
	}
}

// golang/go#28979: no thread of ours is in another namespace afterwards.
func TestThreadsStay(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		fd, err := o.OpenRaw(t.Context(), prepare(t, o))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadMaps(t.Context(), fd); err != nil {
			t.Error(err)
		}
		closeFD(&fd)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/user")
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	found := make(chan string, 2000)
	for range 2000 {
		go func() {
			link, _ := os.Readlink("/proc/thread-self/ns/user")
			found <- link
		}()
	}
	for range 2000 {
		if link := <-found; link != before {
			t.Fatalf("a goroutine runs in %s, not %s", link, before)
		}
	}
	for _, task := range tasks {
		if link, err := os.Readlink(task); err == nil && link != before {
			t.Errorf("%s is %s", task, link)
		}
	}
}

// At most one child is waited for by nobody, and none after Settle: nobody else shares our memory then.
func TestAtMostOneZombie(t *testing.T) {
	defer leaks(t)()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		m, fds := prepare(t, o), make([]int, 20)
		for range 5 {
			if err := o.OpenMany(t.Context(), m, fds); err != nil {
				t.Fatal(err)
			}
			for i := range fds {
				closeFD(&fds[i])
			}
			if n := len(ownChildren(t)); n > 1 {
				t.Errorf("%s: %d children after an opening", mechanism, n)
			}
		}
		if err := o.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if left := ownChildren(t); len(left) > 0 {
			t.Errorf("%s: children after Settle: %v", mechanism, left)
		}
	}
}

// A context that ends while a child is waited for doesn't leave it to nobody: the next opening, or Settle, reaps it.
func TestSettleLater(t *testing.T) {
	defer leaks(t)()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		child := living(t, o)
		o.dying.child = child
		for range 2 {
			if err := o.Settle(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", mechanism, err)
			}
		}
		if err := errors.Join(child.kill(), o.Settle(t.Context())); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		if left := ownChildren(t); len(left) > 0 {
			t.Errorf("%s: children after Settle: %v", mechanism, left)
		}
	}
}

// living is a child of o's mechanism. A traced one mustn't stand stopped, for its tracer's wait would tell of that.
func living(t *testing.T, o *Opener) holder {
	t.Helper()
	use, err := o.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	if use.name != Ptrace {
		child, err := use.maker.make()
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{PidFD: &pidfd}})
	if err != nil {
		t.Fatal(err)
	}
	return &traced{nsexec.Adopt(pid, pidfd)}
}

// ownChildren are the pids of this process's children, zombies included.
func ownChildren(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		missing(t, "CONFIG_PROC_CHILDREN")
	}
	var list []string
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread may be gone
		list = append(list, strings.Fields(string(text))...)
	}
	return list
}
