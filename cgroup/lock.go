package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The lock on a folder tells a living launcher from a dead one: see the package comment.

// mkdir: where the caller chose the name, an earlier container of that name may
// have left a folder. If nobody holds it, and nothing is in it, it goes.
func (g *Group) mkdir(path string) error {
	err := unix.Mkdir(path, 0o755)
	var st unix.Stat_t
	if err == unix.EEXIST && unix.Lstat(path, &st) == nil && int(st.Uid) == os.Geteuid() && leftOver(path) {
		if gone, _ := sweepOne(path); gone {
			err = unix.Mkdir(path, 0o755)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	g.made = append(g.made, path)
	return nil
}

// leftOver tells whether a folder can be one that a container of this name left:
// nothing is in it but what Wish.Writable makes. Folders that others made in theirs
// aren't ours to remove, even when they are empty.
func leftOver(folder string) bool {
	list := children(folder)
	return len(list) == 0 || len(list) == 1 && list[0] == folder+"/"+innerName
}

// lock: between mkdir and flock a sweep may have taken the folder for a dead
// one. Then it is made anew.
func (g *Group) lock(path string) error {
	for range 5 {
		fd, err := lockFolder(path)
		if err == nil && isThere(fd, path) {
			g.locks[path] = fd
			return nil
		}
		if err == nil {
			unix.Close(fd)
		} else if errors.Is(err, unix.EWOULDBLOCK) {
			time.Sleep(time.Millisecond)
		}
		if err := unix.Mkdir(path, 0o755); err != nil && err != unix.EEXIST {
			return &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
	}
	g.made = slices.DeleteFunc(g.made, func(f string) bool { return f == path }) // another launcher's by now, and not ours to remove
	return &fs.PathError{Op: "flock", Path: path, Err: unix.EWOULDBLOCK}
}

// lockFolder opens a folder and locks it for as long as the fd lives.
func lockFolder(path string) (int, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return fd, nil
}

// isThere tells whether the open folder is still the one that has this name.
func isThere(fd int, path string) bool {
	var open, there unix.Stat_t
	return unix.Fstat(fd, &open) == nil && unix.Lstat(path, &there) == nil && open.Ino == there.Ino && open.Dev == there.Dev
}
