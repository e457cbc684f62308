package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeTries bounds the wait for a cgroup whose last process is just leaving
// it: 1+2+4+…+256 ms.
const removeTries = 9

// Remove removes the container's folders, with those that were made in them
// inside, and gives the locks back. EBUSY: processes are in them still. The
// launcher stays where it is: see Return.
func (g *Group) Remove(ctx context.Context) error {
	var errs []error
	for _, folder := range slices.Backward(g.made) {
		if !strings.HasPrefix(path.Base(folder), leafPrefix) {
			errs = append(errs, removeTree(ctx, folder))
		}
	}
	g.made = slices.DeleteFunc(g.made, func(f string) bool { return unix.Access(f, unix.F_OK) != nil })
	for folder, fd := range g.locks {
		unix.Close(fd)
		delete(g.locks, folder)
	}
	return errors.Join(errs...)
}

// Processes are those in the container's folders, of every one in them, sorted.
func (g *Group) Processes() []int {
	var list []int
	for _, f := range g.Folders() {
		list = append(list, processes(f.Path)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func processes(folder string) []int {
	var list []int
	for _, word := range words(folder + "/cgroup.procs") {
		if pid, err := strconv.Atoi(word); err == nil {
			list = append(list, pid)
		}
	}
	for _, child := range children(folder) {
		list = append(list, processes(child)...)
	}
	return list
}

// Return undoes what was done to the launcher: the controllers that it enabled
// are disabled, and it goes back to the cgroup it came from. It is for a program
// that started one container and ends: it must not be called while another start
// of this process is under way, whose limits would be lost with the controllers.
// With other folders of ours there it does nothing. A leaf that stays is removed
// by the next Sweep, a scope by systemd.
func (g *Group) Return() error {
	for _, f := range g.folders {
		if f.Leaf == "" || g.scope != "" || unix.Access(f.Leaf, unix.F_OK) != nil {
			continue
		}
		if list := children(f.Base); len(list) != 1 || list[0] != f.Leaf {
			continue
		}
		err := write(f.Base+"/cgroup.subtree_control", "-"+strings.Join(f.Enabled, " -"))
		if err == nil {
			err = write(f.Base+"/cgroup.procs", strconv.Itoa(os.Getpid()))
		}
		if err == nil {
			err = unix.Rmdir(f.Leaf)
		}
		if err != nil {
			return fmt.Errorf("cgroup: the launcher can't go back to %s: %w", f.Base, err)
		}
	}
	return nil
}

// children are the folders in a cgroup.
func children(folder string) []string {
	entries, _ := os.ReadDir(folder)
	var list []string
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, folder+"/"+e.Name())
		}
	}
	return list
}

// removeTree removes a cgroup and those in it, from below. One that isn't there
// is fine. A process that exits leaves its cgroup a moment after its parent was
// told: EBUSY is tried again, a bounded number of times.
func removeTree(ctx context.Context, folder string) error {
	pause := time.Millisecond
	for try := 0; ; try++ {
		err := rmdirs(folder)
		if err == nil || !errors.Is(err, unix.EBUSY) || try == removeTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// rmdirs tries the folder alone first: it has others in it seldom.
func rmdirs(folder string) error {
	err := unix.Rmdir(folder)
	if err == unix.EBUSY {
		for _, child := range children(folder) {
			if err := rmdirs(child); err != nil {
				return err
			}
		}
		err = unix.Rmdir(folder)
	}
	if err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
	}
	return nil
}
