package userns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/test/filter"
)

// openings is how often a test opens beside something hostile.
const openings = 100

func openOften(t *testing.T, o *Opener, n int) {
	t.Helper()
	m := prepare(t, o)
	for range n {
		fd, err := o.OpenRaw(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			wantMaps(t, fd, m.UID, m.GID)
		}
		closeFD(&fd)
	}
}

// containerd/containerd#9218: a reaper of all children in the same process, and a process that isn't ours to signal.
func TestReaper(t *testing.T) {
	again(t, "TestInnerReaper")
	again(t, "TestInnerReaper", "WOLFFIA_TEST_WALL=1")
}

func TestInnerReaper(t *testing.T) {
	inner(t)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	options := unix.WNOHANG
	if os.Getenv("WOLFFIA_TEST_WALL") != "" {
		options |= unix.WALL
	}
	stop := make(chan bool)
	var reaping sync.WaitGroup
	reaping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Wait4(-1, nil, options, nil)
				runtime.Gosched()
			}
		}
	})
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, openings)
		o.Close()
	}
	close(stop)
	reaping.Wait()
	if err := bystander.Process.Kill(); err != nil {
		t.Errorf("the bystander was signalled: %v", err)
	}
	bystander.Wait()
	leaks(t)()
}

// A process that ignores SIGCHLD, or whose orphans come to it.
func TestOddParents(t *testing.T) {
	again(t, "TestInnerIgnoresSIGCHLD")
	again(t, "TestInnerSubreaper")
}

func TestInnerIgnoresSIGCHLD(t *testing.T) {
	inner(t)
	defer leaks(t)()
	signal.Ignore(unix.SIGCHLD)
	openByAll(t)
}

func TestInnerSubreaper(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	openByAll(t)
}

// A terminal's signals go to the whole process group, and any of them stops a traced child.
func TestSignalledGroup(t *testing.T) {
	again(t, "TestInnerSignalsItsGroup")
}

func TestInnerSignalsItsGroup(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Setpgid(0, 0); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var signalling sync.WaitGroup
	for range 2 {
		signalling.Go(func() {
			for !stop.Load() {
				unix.Kill(0, unix.SIGWINCH)
			}
		})
	}
	hangs := time.AfterFunc(30*time.Second, func() { panic("a child stands stopped before its execve") })
	openByAll(t)
	o := newOpener(t, Using(Ptrace))
	openOften(t, o, 800)
	o.Close()
	hangs.Stop()
	stop.Store(true)
	signalling.Wait()
}

func openByAll(t *testing.T) {
	t.Helper()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 30)
		openOften(t, o, 1)
		o.Close()
	}
}

// freedomofpress/dangerzone#846 (ptrace), golang/go#62654 (pidfds), youki-dev/youki#2030 (clone3): an outer container's
// filter. Whatever it forbids, a namespace is opened, and the report says by which other way and why.
func TestOpenFiltered(t *testing.T) {
	for _, errno := range []string{"ENOSYS", "EPERM"} {
		again(t, "TestInnerNoPtrace", "WOLFFIA_TEST_FILTER=ptrace="+errno)
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_open="+errno+",kill=EIO")
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_send_signal="+errno+",kill=EIO")
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_open="+errno+",pidfd_send_signal="+errno+",waitid="+errno+",kill=EIO")
		again(t, "TestInnerSilent", "WOLFFIA_TEST_FILTER=waitid="+errno)
	}
	// glibc's pthread_create(3) of a test with the race detector wants ENOSYS, as every threaded program does
	again(t, "TestInnerNoClone3", "WOLFFIA_TEST_FILTER=clone3=ENOSYS")
	again(t, "TestInnerNoCloneAtAll", "WOLFFIA_TEST_FILTER=clone3=ENOSYS,clone=EPERM")
}

func TestInnerNoPtrace(t *testing.T) {
	inner(t)
	defer leaks(t)()
	_, err := Open(t.Context(), IDMap{{0, uint32(os.Geteuid()), 1}}, IDMap{{0, uint32(os.Getegid()), 1}}, Using(Ptrace))
	var blocked *PtraceError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "Seccomp: 2") || !strings.Contains(err.Error(), "mechanism vm") {
		t.Errorf("alone: %v", err)
	}
	wantFallback(t, "ptrace can't be used here", VM, Ptrace, VM)
}

// wantFallback opens by the first mechanism that works, and looks for the reason in the report.
func wantFallback(t *testing.T, note string, want Mechanism, wish ...Mechanism) {
	t.Helper()
	o := newOpener(t, Using(wish...))
	defer o.Close()
	openOften(t, o, 20)
	openOften(t, o, 1)
	r := o.Report()
	if r.Mechanism != want || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], note) {
		t.Errorf("report %+v, want %s and %q", r, want, note)
	}
	p, err := o.NewPool(3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fd, err := p.OpenRaw(t.Context(), prepare(t, o))
	if err != nil {
		t.Fatal(err)
	}
	closeFD(&fd)
}

func TestInnerNoPidfd(t *testing.T) {
	inner(t)
	defer leaks(t)()
	for _, mechanism := range []Mechanism{VM, Fork} {
		wantFallback(t, "a pipe tells the child of our death", mechanism, mechanism)
	}
	o := newOpener(t, Using(Ptrace, Fork))
	defer o.Close()
	openOften(t, o, 1)
	if r := o.Report(); r.Mechanism != Fork || len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "pidfd") {
		t.Errorf("%+v", r)
	}
	alone := newOpener(t, Using(Ptrace))
	defer alone.Close()
	for range 2 { // told each time
		_, err := alone.OpenRaw(t.Context(), &Maps{})
		if err == nil || !strings.Contains(err.Error(), "no mechanism") || !strings.Contains(err.Error(), "pidfd") {
			t.Errorf("%v", err)
		}
	}
}

// A filter that came after the Opener was made: an error and no hang, though the child can't be killed before our end.
func TestFilteredLater(t *testing.T) {
	again(t, "TestInnerFilteredLater")
}

func TestInnerFilteredLater(t *testing.T) {
	inner(t)
	var openers []*Opener
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 1)
		if err := o.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		openers = append(openers, o)
	}
	if err := filter.Install("pidfd_send_signal=EPERM,kill=EIO"); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(10*time.Second, func() { panic("it waits for a child that it can't kill") })
	defer hangs.Stop()
	for i, o := range openers {
		_, err := o.OpenRaw(t.Context(), prepare(t, o))
		var failure *OpenError
		if !errors.As(err, &failure) || !errors.As(err, new(*nsexec.FilteredError)) || failure.Name != "kill the child" {
			t.Errorf("%s: %v", Mechanisms()[i], err)
		}
	}
}

// Not dumpable, an ordinary user is root's in /proc: the error says so, and which mechanism works.
func TestUndumpable(t *testing.T) {
	again(t, "TestInnerUndumpable")
}

func TestInnerUndumpable(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []Mechanism{VM, Fork} {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		_, err := o.OpenRaw(t.Context(), prepare(t, o))
		if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "not dumpable") || !strings.Contains(err.Error(), "mechanism ptrace") {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
	o := newOpener(t, Using(Ptrace))
	openOften(t, o, 1)
	o.Close()
}

// What is forbidden makes no difference that a caller could meet.
func TestInnerSilent(t *testing.T) {
	inner(t)
	defer leaks(t)()
	openByAll(t)
}

func TestInnerNoClone3(t *testing.T) {
	inner(t)
	defer leaks(t)()
	for _, mechanism := range []Mechanism{VM, Fork} {
		wantFallback(t, "clone(2) makes the child", mechanism, mechanism)
	}
}

func TestInnerNoCloneAtAll(t *testing.T) {
	inner(t)
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	_, err := o.OpenRaw(t.Context(), prepare(t, o))
	if err == nil || !strings.Contains(err.Error(), "clone") {
		t.Errorf("%v", err)
	}
	alone := newOpener(t, Using(VM))
	defer alone.Close()
	_, err = alone.OpenRaw(t.Context(), prepare(t, alone))
	if !errors.As(err, new(*nsexec.FilteredError)) || strings.Contains(err.Error(), "security module") {
		t.Errorf("the likely cause is known, and no other is to be named: %v", err)
	}
}

// The limits of files, processes and namespaces, each with its remedy.
func TestOpenLimits(t *testing.T) {
	again(t, "TestInnerFewFiles")
	again(t, "TestInnerFewFilesForAPool")
	again(t, "TestInnerFewProcesses")
	again(t, "TestInnerFewNamespaces")
}

func TestInnerFewFiles(t *testing.T) {
	inner(t)
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	openOften(t, o, 1)
	refused := 0
	for n := len(mustOpenFDs(t)); ; n++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: 4096}); err != nil {
			t.Fatal(err)
		}
		fd, err := o.OpenRaw(t.Context(), m)
		if err == nil {
			closeFD(&fd)
			break
		}
		var failure *OpenError
		if !errors.As(err, &failure) || !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), fmt.Sprintf("RLIMIT_NOFILE is %d", n)) {
			t.Fatalf("%d files: %v", n, err)
		}
		refused++
	}
	if refused < 3 {
		t.Errorf("only %d limits were too low", refused)
	}
}

// A pool that just fits fills: its own dead child, not yet reaped, doesn't count.
func TestInnerFewFilesForAPool(t *testing.T) {
	inner(t)
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	prepare(t, o)
	openOften(t, o, 1)
	if err := o.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	const size, pidfd = 3, 1
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limitFor(t, size*fdsOfOne()+pidfd), Max: 4096}); err != nil {
		t.Fatal(err)
	}
	p, err := o.NewPool(size)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Fill(t.Context()); err != nil {
		t.Error(err)
	}
}

// limitFor is the RLIMIT_NOFILE with which so many more fds can be opened.
func limitFor(t *testing.T, free int) (limit uint64) {
	t.Helper()
	for ; free > 0; limit++ {
		if _, err := unix.FcntlInt(uintptr(limit), unix.F_GETFD, 0); err != nil {
			free--
		}
	}
	return limit
}

func mustOpenFDs(t *testing.T) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestInnerFewProcesses(t *testing.T) {
	inner(t)
	defer leaks(t)()
	if os.Geteuid() == 0 {
		t.Skip("RLIMIT_NPROC doesn't bind root")
	}
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	openOften(t, o, 1)
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &old); err != nil {
		t.Log("the hard limit is lower:", err)
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := o.OpenRaw(t.Context(), m)
	if !errors.Is(err, unix.EAGAIN) || !strings.Contains(err.Error(), "RLIMIT_NPROC is 1") {
		t.Errorf("%v", err)
	}
}

// containers/bubblewrap#371: "no space left on device" from a namespace limit.
func TestInnerFewNamespaces(t *testing.T) {
	inner(t)
	nest(t, "TestNestedFewNamespaces")
}

func TestNestedFewNamespaces(t *testing.T) {
	inner(t)
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m := prepare(t, o)
	openOften(t, o, 1)
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	fd, err := o.OpenRaw(t.Context(), m)
	for try := 0; errors.Is(err, unix.ENOSPC) && try < 100; try++ { // those before are destroyed asynchronously
		time.Sleep(10 * time.Millisecond)
		fd, err = o.OpenRaw(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(&fd)
	_, err = o.OpenRaw(t.Context(), m)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "user.max_user_namespaces is 1 here") || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("%v", err)
	}
}

// nest runs a test of this binary in a user namespace below ours, as its root.
func nest(t *testing.T, test string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), append(env, "WOLFFIA_TEST_INNER=1", "WOLFFIA_TEST_NESTED_IN=1")...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%s: %v\n%s", test, err, out)
	}
}

// Nested as deep as the kernel goes, 32 below the first one, and what is said behind it.
func TestNestedDepth(t *testing.T) {
	again(t, "TestInnerDeeper")
}

func TestInnerDeeper(t *testing.T) {
	inner(t)
	defer leaks(t)()
	depth := len(os.Getenv("WOLFFIA_TEST_DEPTH"))
	o := newOpener(t)
	defer o.Close()
	fd, err := o.OpenRaw(t.Context(), prepare(t, o))
	if err == nil {
		look(t, fd, IDMap{{0, uint32(os.Geteuid()), 1}}, IDMap{{0, uint32(os.Getegid()), 1}})
		closeFD(&fd)
		if depth > 40 {
			t.Fatal("no end of nesting")
		}
		nest(t, "TestInnerDeeper", "WOLFFIA_TEST_DEPTH="+strings.Repeat("x", depth+1))
		return
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EUSERS) || !strings.Contains(err.Error(), "nested 33 deep") || depth < 20 {
		t.Errorf("at depth %d: %v", depth, err)
	}
}

// containers/bubblewrap#633: whatever the owner does when it is killed, no child of it lives on.
func TestOwnerKilled(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, mechanism := range append(Mechanisms(), "pool") {
		for round := range 10 {
			cmd := exec.Command(os.Args[0], "-test.run=^TestInnerOpensForEver$")
			cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1", "WOLFFIA_TEST_MECHANISM="+string(mechanism))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if n, err := out.Read(make([]byte, 1)); n != 1 {
				t.Fatal("it opens nothing: ", err)
			}
			time.Sleep(time.Duration(round*137) * time.Microsecond)
			cmd.Process.Kill()
			cmd.Wait()
			if left := orphansLeft(time.Second); left != "" {
				t.Fatalf("%s: %s", mechanism, left)
			}
		}
	}
}

// containers/bubblewrap#633: the owner dies before each act in turn, with all that came before it done: nothing lives on.
func TestOwnerKilledAtEveryAct(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, mechanism := range Mechanisms() {
		for _, maps := range []string{"own", "range", script(t, "exec sleep 1000")} {
			for op := actMake; op <= actDone; op++ {
				killedAt(t, mechanism, maps, op)
			}
		}
	}
}

// actDone is no act: the owner dies with all of them done.
const actDone = actReap + 1

func killedAt(t *testing.T, mechanism Mechanism, maps string, op actOp) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInnerDiesAt$")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1", "WOLFFIA_TEST_MECHANISM="+string(mechanism), "WOLFFIA_TEST_MAPS="+maps, fmt.Sprint("WOLFFIA_TEST_ACT=", op))
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != unix.SIGKILL {
		t.Errorf("%s, %s, act %d: %v", mechanism, maps, op, err)
	}
	if left := orphansLeft(2 * time.Second); left != "" {
		t.Errorf("%s, %s, act %d: %s", mechanism, maps, op, left)
	}
}

func TestInnerDiesAt(t *testing.T) {
	inner(t)
	o := newOpener(t, Using(Mechanism(os.Getenv("WOLFFIA_TEST_MECHANISM"))))
	die := func() { unix.Kill(os.Getpid(), unix.SIGKILL) }
	o.fault = func(op actOp) error {
		if fmt.Sprint(op) == os.Getenv("WOLFFIA_TEST_ACT") {
			die()
		}
		return nil
	}
	uid, gid := ownMaps()
	maps := os.Getenv("WOLFFIA_TEST_MAPS")
	if maps != "own" {
		uid, gid = rangeMaps(t)
	}
	m, err := o.Prepare(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	if maps != "own" && maps != "range" { // a helper that hangs: it dies meanwhile
		m.UIDWriter.Helper = maps
		time.AfterFunc(50*time.Millisecond, die)
	}
	for range 2 { // the second reaps the first one's child
		if _, err := o.OpenRaw(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	die()
}

// orphansLeft reaps what came to us, for at most patience, and tells of what doesn't end.
func orphansLeft(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err == unix.ECHILD:
			return ""
		case pid == 0 && time.Now().After(end):
			children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
			return "still alive: " + string(children)
		}
	}
}

func TestInnerOpensForEver(t *testing.T) {
	inner(t)
	o := newOpener(t)
	open := o.OpenRaw
	if m := os.Getenv("WOLFFIA_TEST_MECHANISM"); m == "pool" {
		p, err := o.NewPool(8)
		if err != nil {
			t.Fatal(err)
		}
		open = p.OpenRaw
	} else {
		o.wish = []Mechanism{Mechanism(m)}
	}
	m := prepare(t, o)
	for i := 0; ; i++ {
		fd, err := open(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(&fd)
		if i == 3 {
			os.Stdout.Write([]byte("x"))
		}
	}
}

// A child that was killed and reaped behind our back gives no fd of whatever has its number now.
func TestVanished(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		func() {
			defer leaks(t)()
			o := newOpener(t, Using(mechanism))
			defer o.Close()
			use, err := o.mechanism()
			if err != nil {
				t.Fatal(err)
			}
			x, m := newOpening(), prepare(t, o)
			kill := slices.IndexFunc(use.direct.blank, func(a act) bool { return a.op == actKill })
			if err := o.run(t.Context(), use, use.direct.blank[:kill], 0, use.direct.len(), &x, m); err != nil {
				t.Fatal(err)
			}
			unix.Kill(x.child.id(), unix.SIGKILL) // ours, just made
			if _, err := unix.Wait4(x.child.id(), nil, unix.WALL, nil); err != nil {
				t.Fatal(err)
			}
			err = o.run(t.Context(), use, use.direct.blank[kill:], kill, use.direct.len(), &x, m)
			var vanished *VanishedError
			if !errors.As(err, &vanished) || !errors.Is(err, nsexec.ErrDone) {
				t.Errorf("%s: %v", mechanism, err)
			}
			x.abandon()
		}()
	}
}
