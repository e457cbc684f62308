package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/userns"
)

// An FDWay is one way to open user namespaces as fds. Run makes batches, each of
// which opens n and closes them, and tells what they took together.
type FDWay struct {
	Run   func(batches, n int) (time.Duration, error)
	Close func() error
}

// repeat makes a Run of a function that makes one batch and tells its time.
func repeat(batch func(n int) (time.Duration, error)) func(int, int) (time.Duration, error) {
	return func(batches, n int) (total time.Duration, err error) {
		for range batches {
			took, err := batch(n)
			if err != nil {
				return 0, err
			}
			total += took
		}
		return total, nil
	}
}

// mostAtOnce is the largest batch.
const mostAtOnce = 16

// ErrNoHelpers tells that this user's ranges are written without newuidmap(1).
var ErrNoHelpers = errors.New("bench: this user writes all maps itself: newuidmap is not needed")

// FDNames are all ways, by the names of their benchmarks.
func FDNames() []string {
	return []string{"ptrace", "ptrace-raw", "fork", "fork-raw", "vm", "vm-raw", "floor", "maps", "pool", "pool-sustained", "helpers"}
}

// NewFDWay prepares one of them; the floor is compiled in dir. What can't be had
// here is ErrNoCompiler or ErrNoHelpers.
func NewFDWay(name, dir string) (*FDWay, error) {
	switch name {
	case "floor":
		return FDFloor(dir)
	case "maps":
		return MapsAlone()
	case "pool":
		return pool(64, true)
	case "pool-sustained":
		return pool(4, false) // far fewer than a round takes, or the rate would be that of the pauses between
	case "helpers":
		return OpenedByHelpers()
	}
	if m, raw := strings.CutSuffix(name, "-raw"); raw {
		return OpenedBy(userns.Mechanism(m))
	}
	return FilesBy(userns.Mechanism(name))
}

// FDMaps are the maps that whoever runs this can write directly: as root three
// extents, else the own ids.
func FDMaps() (uid, gid userns.IDMap) {
	if os.Geteuid() == 0 {
		m := userns.IDMap{{Inside: 0, Outside: 100000, Length: 1000}, {Inside: 1000, Outside: 200000, Length: 1},
			{Inside: 2000, Outside: 300000, Length: 65536}}
		return m, m
	}
	return userns.IDMap{{Inside: 0, Outside: uint32(os.Geteuid()), Length: 1}}, userns.IDMap{{Inside: 0, Outside: uint32(os.Getegid()), Length: 1}}
}

// OpenedBy opens with prepared maps, as fds, by one mechanism.
func OpenedBy(m userns.Mechanism) (*FDWay, error) {
	o, err := userns.NewOpener(userns.Using(m))
	if err != nil {
		return nil, err
	}
	maps, err := o.Prepare(FDMaps())
	if err != nil {
		return nil, err
	}
	return &FDWay{rawBatch(o, maps), o.Close}, nil
}

func rawBatch(o *userns.Opener, maps *userns.Maps) func(int, int) (time.Duration, error) {
	fds := make([]int, mostAtOnce)
	return repeat(func(n int) (time.Duration, error) {
		start := time.Now()
		err := o.OpenMany(context.Background(), maps, fds[:n])
		closeFDs(fds[:n])
		return time.Since(start), err
	})
}

// FilesBy opens as *os.File, maps checked each time: the convenient form. Several
// are opened at once as the mechanism's users do it: by vm in one batch, by the
// others in as many goroutines (containerd's benchmark).
func FilesBy(m userns.Mechanism) (*FDWay, error) {
	o, err := userns.NewOpener(userns.Using(m))
	if err != nil {
		return nil, err
	}
	if m == userns.VM {
		return &FDWay{repeat(timed(fileBatch(o))), o.Close}, nil
	}
	return &FDWay{repeat(timed(fileGoroutines(o))), o.Close}, nil
}

func fileBatch(o *userns.Opener) func(n int) error {
	uid, gid := FDMaps()
	return func(n int) error {
		files, err := o.OpenBatch(context.Background(), uid, gid, n)
		for _, f := range files {
			f.Close()
		}
		return err
	}
}

func fileGoroutines(o *userns.Opener) func(n int) error {
	uid, gid := FDMaps()
	one := func() error {
		file, err := o.Open(context.Background(), uid, gid)
		if err != nil {
			return err
		}
		return file.Close()
	}
	return func(n int) error {
		if n == 1 {
			return one()
		}
		errs := make(chan error, n)
		for range n {
			go func() { errs <- one() }()
		}
		var failed []error
		for range n {
			failed = append(failed, <-errs)
		}
		return errors.Join(failed...)
	}
}

// timed tells what a batch took.
func timed(batch func(n int) error) func(n int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		start := time.Now()
		err := batch(n)
		return time.Since(start), err
	}
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// OpenedByHelpers opens with an ordinary user's ranges, which newuidmap(1) and newgidmap(1) write.
func OpenedByHelpers() (*FDWay, error) {
	facts, err := userns.Probe(userns.ProbeOptions{})
	if err != nil {
		return nil, err
	}
	ids, err := userns.PlanMaps(userns.Request{Mode: userns.Auto}, facts)
	if err != nil {
		return nil, err
	}
	o, err := userns.NewOpener(userns.Using(userns.VM))
	if err != nil {
		return nil, err
	}
	maps, err := o.Prepare(ids.UID, ids.GID)
	if err != nil {
		return nil, err
	}
	if maps.Direct() {
		return nil, ErrNoHelpers
	}
	return &FDWay{rawBatch(o, maps), o.Close}, nil
}
