package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoFreezer tells that the container's cgroup can't be frozen: v1 has a
// hierarchy of its own for that, and the container has no folder in it.
var ErrNoFreezer = errors.New("cgroup: the container has no cgroup of v2, nor one in v1's freezer hierarchy")

// Freeze stops every process of the container, and returns when they are
// stopped (v2: cgroup.freeze, 5.2). It can't be seen from inside.
func (g *Group) Freeze(ctx context.Context) error { return g.freeze(ctx, true) }

// Thaw lets them go on.
func (g *Group) Thaw(ctx context.Context) error { return g.freeze(ctx, false) }

func (g *Group) freeze(ctx context.Context, on bool) error {
	for _, f := range g.Folders() {
		if f.Version == 2 {
			return freezeV2(ctx, f.Path, on)
		}
		if unix.Access(f.Path+"/freezer.state", unix.F_OK) == nil {
			return freezeV1(ctx, f.Path, on)
		}
	}
	return ErrNoFreezer
}

func freezeV2(ctx context.Context, folder string, on bool) error {
	want := uint64(0)
	if on {
		want = 1
	}
	if err := write(folder+"/cgroup.freeze", strconv.FormatUint(want, 10)); err != nil {
		return err
	}
	return awaitEvent(ctx, folder, "frozen", want)
}

// awaitEvent waits until a key of cgroup.events has a value. The kernel tells.
func awaitEvent(ctx context.Context, folder, key string, want uint64) error {
	path := folder + "/cgroup.events"
	file, err := pollable(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := await(ctx, file, func() bool { return keyed(path)[key] == want }); err != nil {
		return fmt.Errorf("cgroup: %s doesn't tell %s %d: %w", path, key, want, err)
	}
	return nil
}

// freezeV1: freezer.state reads FREEZING until all are; each read tries again
// (freezer-subsystem.rst).
func freezeV1(ctx context.Context, folder string, on bool) error {
	want := "THAWED"
	if on {
		want = "FROZEN"
	}
	if err := write(folder+"/freezer.state", want); err != nil {
		return err
	}
	for pause := time.Millisecond; firstWord(folder+"/freezer.state") != want; pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup: %s isn't %s: %w", folder, want, ctx.Err())
		case <-time.After(pause):
		}
	}
	return nil
}

// Kill ends every process of the container with SIGKILL: by cgroup.kill (5.14),
// which no fork can outrun, or frozen first, so that none can fork. It returns
// when they have left the cgroup.
func (g *Group) Kill(ctx context.Context) error {
	for _, f := range g.Folders() {
		if f.Version == 2 {
			return killV2(ctx, f.Path)
		}
	}
	if err := g.Freeze(ctx); err != nil {
		return err
	}
	err := signalAll(g.Folders()[0].Path)
	return errors.Join(err, g.Thaw(ctx)) // a frozen process of v1 dies when it is thawed
}

func killV2(ctx context.Context, folder string) error {
	err := write(folder+"/cgroup.kill", "1")
	if errors.Is(err, unix.ENOENT) {
		err = killFrozen(ctx, folder)
	}
	if err != nil {
		return err
	}
	return awaitEvent(ctx, folder, "populated", 0)
}

// killFrozen is the way before 5.14. A process that is frozen by v2 dies at once.
func killFrozen(ctx context.Context, folder string) error {
	if err := freezeV2(ctx, folder, true); err != nil {
		return err
	}
	return errors.Join(signalAll(folder), freezeV2(ctx, folder, false))
}

// signalAll sends SIGKILL to the processes of a cgroup and those below.
func signalAll(folder string) error {
	var errs []error
	for _, pid := range words(folder + "/cgroup.procs") {
		errs = append(errs, signalMember(folder, pid))
	}
	for _, child := range children(folder) {
		errs = append(errs, signalAll(child))
	}
	return errors.Join(errs...)
}

// signalMember opens the process first and then looks again whether that number
// is still a member: it may have ended, and the number be another's.
func signalMember(folder, text string) error {
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 0 {
		return fmt.Errorf("cgroup: a process of %s is in a pid namespace that we can't see", folder)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if !slices.Contains(words(folder+"/cgroup.procs"), text) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}
