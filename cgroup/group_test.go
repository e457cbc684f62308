package cgroup

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder that was removed and made anew between open and flock isn't the one
// whose lock we have: two launchers would share it, and the second's limits.
func TestLockOfWhatIsThere(t *testing.T) {
	path := t.TempDir() + "/wolffia-1-1"
	if err := unix.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := lockFolder(path)
	if err != nil || !isThere(fd, path) {
		t.Fatal(fd, err)
	}
	defer unix.Close(fd)
	if err := unix.Rename(path, path+".old"); err != nil { // it stays, so that its inode isn't used again
		t.Fatal(err)
	}
	if isThere(fd, path) {
		t.Error("no folder, and it is there")
	}
	if err := unix.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if isThere(fd, path) {
		t.Error("another folder was taken for the locked one")
	}
}

// Two launchers with one name: who doesn't get the lock leaves the other's folder alone.
func TestLockedByAnother(t *testing.T) {
	path := t.TempDir() + "/box"
	g := New(&Plan{})
	if err := g.mkdir(path); err != nil {
		t.Fatal(err)
	}
	fd, err := lockFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	err = g.lock(path)
	if !errors.Is(err, unix.EWOULDBLOCK) || Hint(Step{Op: OpLock}, err) == "" {
		t.Errorf("%v", err)
	}
	if err := g.Remove(t.Context()); err != nil || unix.Access(path, unix.F_OK) != nil {
		t.Errorf("the other's folder is gone: %v", err)
	}
}

// With Try, a limit that was refused when it was planned keeps its cause when a
// step fails later.
func TestTryKeepsCauses(t *testing.T) {
	g := New(&Plan{Mode: Try, Ledger: Ledger{{Key: "cpu.max", State: NotInForce, Cause: "cpu isn't delegated"}, {Key: "memory.max", State: Intended}}})
	if err := g.Do(t.Context(), Step{Name: "make the cgroup", Op: OpMkdir, Path: t.TempDir() + "/no/folder"}); err != nil {
		t.Fatal(err)
	}
	if g.Ledger[0].Cause != "cpu isn't delegated" || g.Ledger[1].State != NotInForce || len(g.Folders()) != 0 {
		t.Errorf("%v", g.Ledger)
	}
}
