package container

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// prepare takes what the root needs on the host: the lock of an upper layer and
// its work folder. The returned function gives it back.
func (p *Plan) prepare(ctx context.Context, s *nsexec.Spawner) (release func() error, err error) {
	if p.Options.Root.Upper == "" {
		return p.prepareScratch(ctx, s)
	}
	lock, err := lockUpper(p.Options.Root.Upper)
	if err != nil {
		return nil, err
	}
	work := WorkDir(p.Options.Root.Upper)
	if err := unix.Mkdir(work, 0o700); err != nil && err != unix.EEXIST {
		unix.Close(lock)
		return nil, &InputError{"the work folder of --upper", work, err, "it has to lie beside the upper layer, on the same file system"}
	}
	return func() error {
		return errors.Join(removeTree(ctx, s, p.Maps, p.Facts, work), unix.Close(lock))
	}, nil
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
