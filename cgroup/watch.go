package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Watch tells of OOM kills in a container while they happen, without polling:
// the kernel wakes whoever waits on memory.events (v2) or on an eventfd that is
// registered for memory.oom_control (v1). It takes no thread and no inotify
// instance, of which a user has few: the runtime's poller waits.
type Watch struct {
	file *os.File // memory.events, or the eventfd
	look func(woken bool) (MemoryEvents, bool)
}

// Watch begins. Close it. Without a memory controller it is an error.
func (g *Group) Watch() (*Watch, error) {
	for _, f := range g.Folders() {
		switch {
		case f.Version == 2 && unix.Access(f.Path+"/memory.events", unix.R_OK) == nil:
			return watchV2(f.Path + "/memory.events")
		case f.Version == 1 && unix.Access(f.Path+"/memory.oom_control", unix.R_OK) == nil:
			return watchV1(f.Path)
		}
	}
	return nil, errors.New("cgroup: no memory controller is enabled for the container, so nothing tells of its OOM kills")
}

func watchV2(path string) (*Watch, error) {
	file, err := pollable(path)
	if err != nil {
		return nil, err
	}
	return &Watch{file, func(bool) (MemoryEvents, bool) { return memoryEvents(path) }}, nil
}

// watchV1: cgroup.event_control takes "eventfd target" (cgroup-v1/memory.rst).
func watchV1(folder string) (*Watch, error) {
	control, err := open(folder+"/memory.oom_control", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(control) // the kernel keeps the registration
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	w := &Watch{os.NewFile(uintptr(event), "eventfd"), func(woken bool) (MemoryEvents, bool) { return eventsV1(folder, woken) }}
	if err := write(folder+"/cgroup.event_control", fmt.Sprintf("%d %d", event, control)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// eventsV1: the eventfd wakes us when memory has run out, a moment before the
// kill is counted. A wake-up is followed by a few more looks, some 60 ms long.
func eventsV1(folder string, woken bool) (m MemoryEvents, ok bool) {
	before := uint64(0)
	for pause := time.Millisecond; pause < 64*time.Millisecond; pause *= 2 {
		k := keyed(folder + "/memory.oom_control")
		m, ok = MemoryEvents{OOMKill: k["oom_kill"], Max: value(folder + "/memory.failcnt")}, k != nil
		if !woken || !ok || before != 0 && m.OOMKill >= before {
			break
		}
		if before == 0 {
			before = m.OOMKill + 1
		}
		time.Sleep(pause)
	}
	return m, ok
}

// Wait returns when the kernel counted more OOM kills than seen, with the
// counters, or with ctx's error. os.ErrClosed: the Watch was closed.
// os.ErrNotExist: the cgroup is gone.
func (w *Watch) Wait(ctx context.Context, seen uint64) (now MemoryEvents, err error) {
	woken, ok := false, true
	err = await(ctx, w.file, func() bool {
		now, ok = w.look(woken)
		woken = true
		return !ok || now.OOMKill > seen
	})
	if err == nil && !ok {
		err = os.ErrNotExist
	}
	return now, err
}

// Close ends the Watch and a Wait.
func (w *Watch) Close() error { return w.file.Close() }

// pollable opens a file so that the runtime's poller takes it.
func pollable(path string) (*os.File, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// await returns when done does, which is asked first and then whenever the
// kernel wakes the poller on file: cgroupfs does at each change of cgroup.events
// and memory.events (kernfs_notify, POLLPRI), and an edge-triggered poller sees
// any wake-up. The order matters: RawConn.Read forgets earlier edges, then asks,
// then waits, so that no change is lost in between.
func await(ctx context.Context, file *os.File, done func() bool) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	err = conn.Read(func(uintptr) bool { return done() })
	if !stop() {
		file.SetReadDeadline(time.Time{})
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
