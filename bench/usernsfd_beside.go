package bench

// What user namespace fds are compared with: a pool that made them before, the
// maps alone, the floor in C.

import (
	"context"
	_ "embed"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

//go:embed floor/usernsfd.c
var usernsFDFloor string

// pool opens out of a pool: one that is full before each batch, so that a batch
// is the latency alone, or one that refills meanwhile.
func pool(size int, full bool) (*FDWay, error) {
	o, err := userns.NewOpener()
	if err != nil {
		return nil, err
	}
	maps, err := o.Prepare(FDMaps())
	if err != nil {
		return nil, err
	}
	p, err := o.NewPool(size)
	if err != nil {
		return nil, err
	}
	fds := make([]int, mostAtOnce)
	batch := func(n int) (time.Duration, error) {
		if full {
			if err := p.Fill(context.Background()); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		for i := range n {
			fd, err := p.OpenRaw(context.Background(), maps)
			if err != nil {
				return 0, err
			}
			fds[i] = fd
		}
		closeFDs(fds[:n])
		return time.Since(start), nil
	}
	return &FDWay{repeat(batch), func() error {
		err := p.Close()
		if err2 := o.Close(); err == nil {
			err = err2
		}
		return err
	}}, nil
}

// MapsAlone opens, writes and closes the map files of a child that is there already: what no way can go below that
// is given a namespace and writes its maps.
func MapsAlone() (*FDWay, error) {
	noops, err := nsexec.NewNoops(unix.CLONE_NEWUSER, false)
	if err != nil {
		return nil, err
	}
	uid, gid := FDMaps()
	files := []struct{ name, text string }{{"uid_map", uid.String()}, {"gid_map", gid.String()}}
	if os.Geteuid() != 0 {
		files = []struct{ name, text string }{files[0], {"setgroups", "deny"}, files[1]}
	}
	one := func() (time.Duration, error) {
		c, err := noops.Start()
		if err != nil {
			return 0, err
		}
		dir := "/proc/" + strconv.Itoa(c.PID) + "/"
		start := time.Now()
		for _, f := range files {
			if err := writeOnce(dir+f.name, f.text); err != nil {
				return 0, err
			}
		}
		took := time.Since(start)
		if err := c.Kill(); err != nil {
			return 0, err
		}
		return took, c.Reap(context.Background())
	}
	return &FDWay{repeat(func(n int) (total time.Duration, err error) {
		for range n {
			took, err := one()
			if err != nil {
				return 0, err
			}
			total += took
		}
		return total, nil
	}), noops.Close}, nil
}

func writeOnce(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// FDFloor is the floor in C: the calls of the mechanism vm, in a program of their own.
func FDFloor(dir string) (*FDWay, error) {
	f, err := compile([]byte(floorHead+usernsFDFloor+floorEntry), dir, "usernsfd", false)
	if err != nil {
		return nil, err
	}
	uid, gid := FDMaps()
	run := func(batches, n int) (time.Duration, error) {
		args := []string{strconv.Itoa(batches), strconv.Itoa(n), uid.String(), gid.String()}
		if os.Geteuid() != 0 {
			args = append(args, "deny")
		}
		return f.total(args...)
	}
	return &FDWay{run, func() error { return nil }}, nil
}

// HoldFDs opens n user namespaces and keeps them.
func HoldFDs(n int) (release func(), err error) {
	o, err := userns.NewOpener()
	if err != nil {
		return nil, err
	}
	maps, err := o.Prepare(FDMaps())
	if err != nil {
		return nil, err
	}
	fds := make([]int, n)
	if err := o.OpenMany(context.Background(), maps, fds); err != nil {
		return nil, err
	}
	return func() {
		closeFDs(fds)
		o.Close()
	}, nil
}
