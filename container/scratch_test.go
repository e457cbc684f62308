package container

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only what a killed launcher left is removed: not what is in use, and nothing
// so young that its owner may be about to lock it.
func TestSweepScratch(t *testing.T) {
	parent := t.TempDir()
	old := time.Now().Add(-2 * time.Minute)
	folder := func(name string, age time.Time) string {
		dir := filepath.Join(parent, name)
		if err := errors.Join(os.MkdirAll(dir+"/upper", 0o700), os.Chtimes(dir, age, age)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	folder("dead", old)
	folder("young", time.Now())
	lock, err := lockFolder(folder("used", old))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(lock)
	if err := errors.Join(os.WriteFile(parent+"/file", nil, 0o600), os.Chtimes(parent+"/file", old, old)); err != nil {
		t.Fatal(err)
	}
	if err := sweepScratch(parent, os.RemoveAll); err != nil {
		t.Fatal(err)
	}
	if left := names(t, parent); !slices.Equal(left, []string{"file", "used", "young"}) {
		t.Errorf("%q are left", left)
	}
	// Its owner ended: now it goes.
	unix.Close(lock)
	if err := sweepScratch(parent, os.RemoveAll); err != nil {
		t.Fatal(err)
	}
	if left := names(t, parent); !slices.Equal(left, []string{"file", "young"}) {
		t.Errorf("%q are left", left)
	}
}

// While a folder is being removed nobody else removes it, and what couldn't be
// removed is told.
func TestSweepScratchLocks(t *testing.T) {
	parent := t.TempDir()
	dir, old := parent+"/dead", time.Now().Add(-time.Hour)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chtimes(dir, old, old)); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("can't be removed")
	err := sweepScratch(parent, func(dir string) error {
		if fd, err := lockFolder(dir); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("the folder is removed without its lock: fd %d, %v", fd, err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if fd, err := lockFolder(dir); err != nil {
		t.Error("the lock was kept: ", err)
	} else {
		unix.Close(fd)
	}
	if err := sweepScratch(parent+"/none", os.RemoveAll); err != nil {
		t.Error("nothing to sweep: ", err)
	}
}

func TestScratchParent(t *testing.T) {
	for _, test := range []struct{ data, home, want string }{
		{"/data", "/home/u", "/data/wolffia/scratch"},
		{"", "/home/u", "/home/u/.local/share/wolffia/scratch"},
		{"relative", "/home/u", "/home/u/.local/share/wolffia/scratch"}, // basedir-spec: relative paths are ignored
	} {
		t.Setenv("XDG_DATA_HOME", test.data)
		t.Setenv("HOME", test.home)
		if os.Geteuid() == 0 {
			test.want = "/var/lib/wolffia/scratch" // root's home is closed to the container's ids
		}
		if got := scratchParent(); got != test.want {
			t.Errorf("XDG_DATA_HOME=%q HOME=%q: %s", test.data, test.home, got)
		}
	}
	if a, b := newScratch(), newScratch(); a == b || filepath.Dir(a) != scratchParent() {
		t.Errorf("%s, %s", a, b)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
