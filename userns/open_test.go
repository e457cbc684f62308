package userns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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

// No fd of an opening reaches a program that another goroutine starts meanwhile.
func TestCloseOnExec(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		m, seen, before := prepare(t, o), 0, map[string]bool{}
		for _, fd := range mustOpenFDs(t) {
			before[fd.Name()] = true
		}
		o.fault = func(op actOp) error {
			for _, fd := range mustOpenFDs(t) {
				link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
				n, _ := strconv.Atoi(fd.Name())
				if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); !before[fd.Name()] && err == nil && flags&unix.FD_CLOEXEC == 0 {
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
