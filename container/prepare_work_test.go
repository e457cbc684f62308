package container

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMakeWork: a work folder that isn't overlayfs' is never taken, as it would
// be emptied and removed.
func TestMakeWork(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"new/..", "left/work/incompat", "left/index", "data/notes"} {
		if err := os.MkdirAll(at(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("left", at("link")); err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"fresh": true, "left": true, "data": false, "file": false, "link": false, "no/parent": false} {
		if err := makeWork(at(name)); (err == nil) != good {
			t.Errorf("makeWork(%s): %v", name, err)
		}
	}
}
