package container

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
)

// prepare takes what the root needs on the host: the lock of an upper layer and
// its work folder. The returned function gives it back.
func (p *Plan) prepare(ctx context.Context, s *nsexec.Spawner) (release func() error, err error) {
	if p.Cgroup != nil {
		if _, err := cgroup.Sweep(p.Facts.Cgroup); err != nil { // what killed launchers left
			return nil, err
		}
	}
	if p.Options.Root.Upper == "" {
		return p.prepareScratch(ctx, s)
	}
	lock, err := lockUpper(p.Options.Root.Upper)
	if err != nil {
		return nil, err
	}
	work := WorkDir(p.Options.Root.Upper)
	if err := makeWork(work); err != nil {
		unix.Close(lock)
		return nil, err
	}
	return func() error {
		return errors.Join(removeTree(ctx, s, p.Maps, p.Facts, work), unix.Close(lock))
	}, nil
}

// makeWork makes the work folder, or takes the one that a killed launcher left.
// It is emptied by overlayfs and removed at the end, so a link, a file or a
// folder that holds anything but overlayfs' own is somebody's, and refused.
func makeWork(work string) error {
	err := unix.Mkdir(work, 0o700)
	if err == unix.EEXIST {
		err = leftWork(work)
	}
	if err != nil {
		return &InputError{"the work folder of --upper", work, err,
			"it has to lie beside the upper layer, on the same file system, and is removed at the end: move what has this name away"}
	}
	return nil
}

var errForeignWork = errors.New("it is there already, and not from overlayfs")

// leftWork accepts a folder with nothing in it but what overlayfs makes there.
func leftWork(work string) error {
	fd, err := unix.Open(work, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), work)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "work" && name != "index" {
			return fmt.Errorf("%w: it holds %q", errForeignWork, name)
		}
	}
	return nil
}

// lockUpper keeps two containers from writing one upper layer, which overlayfs
// leaves undefined. The lock is on the folder itself and ends with us.
func lockUpper(upper string) (int, error) {
	fd, err := unix.Open(upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &InputError{"the upper layer (--upper)", upper, err, ""}
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		owner := lockOwner(fd)
		unix.Close(fd)
		return -1, &InputError{"the upper layer (--upper)", upper, fmt.Errorf("another container uses it%s: %w", owner, unix.EBUSY), "wait for its end, or take a folder of its own"}
	}
	return fd, nil
}
