package doctor

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// layersName begins the name of a folder with the layers of an overlay.
const layersName = ".wolffia-doctor-"

const staleAfter = 2 * probeTime

// layersParent is where a user's layers lie: his home, or else $TMPDIR.
func layersParent() string {
	if dir := home(); unix.Access(dir, unix.W_OK) == nil {
		return dir
	}
	return os.TempDir()
}

// layers makes the folders of an overlay below parent.
func layers(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, layersName)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"lower", "lower/folder", "upper", "work", "merged"} {
		err = errors.Join(err, os.Mkdir(dir+"/"+name, 0o755))
	}
	return dir, err
}

// removeLayers removes them, with what overlayfs made in its work folder: some of
// that has mode 0.
func removeLayers(dir string) error {
	if dir == "" {
		return nil
	}
	for _, inside := range []string{"work/work", "work/work/incompat", "work/work/incompat/volatile"} {
		unix.Chmod(dir+"/"+inside, 0o700)
	}
	return os.RemoveAll(dir)
}

// sweepLayers removes what a doctor that was killed left: no overlay takes as
// long as staleAfter. One that can't be removed is nobody's loss.
func sweepLayers(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), layersName) && time.Since(info.ModTime()) > staleAfter {
			_ = removeLayers(parent + "/" + e.Name())
		}
	}
}
