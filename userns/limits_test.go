package userns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
