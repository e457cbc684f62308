package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Before Linux 6.6 a tmpfs has no user xattrs, which overlayfs needs for its
// upper layer: the mount works, and removing a lower folder gives EIO later.
// There a throw-away layer lies in a folder of the user's. It is locked while
// the container lives and removed at its end; what a killed launcher left is
// removed by the next start.

// scratchParent is where such folders lie: not in a runtime directory, which is
// a tmpfs itself.
func scratchParent() string {
	if os.Geteuid() == 0 {
		return "/var/lib/wolffia/scratch" // the container's ids have to reach it: not below /root
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir + "/wolffia/scratch"
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home + "/.local/share/wolffia/scratch"
	}
	return "/var/tmp/wolffia-" + strconv.Itoa(os.Getuid()) + "/scratch"
}

// newScratch names a folder that no other start has.
func newScratch() string {
	return fmt.Sprintf("%s/%d-%x", scratchParent(), os.Getpid(), time.Now().UnixNano())
}

// scratchFolders are what the plan's overlays expect below facts.Scratch.
func (p *Plan) scratchFolders() []string {
	if p.Facts.Scratch == "" {
		return nil
	}
	switch p.Options.Root.Kind {
	case RootHost:
		return []string{p.Facts.Scratch + "/etc", p.Facts.Scratch + "/var"}
	case RootOverlay:
		return []string{p.Facts.Scratch}
	}
	return nil
}

// prepareScratch makes and locks the folder, and removes those of the dead.
func (p *Plan) prepareScratch(ctx context.Context, s *nsexec.Spawner) (func() error, error) {
	folders := p.scratchFolders()
	if folders == nil {
		return func() error { return nil }, nil
	}
	remove := func(dir string) error { return removeTree(ctx, s, p.Maps, p.Facts, dir) }
	swept := sweepScratch(filepath.Dir(p.Facts.Scratch), remove)
	for _, dir := range folders {
		if err := p.makeScratch(dir); err != nil {
			return nil, errors.Join(&InputError{"the throw-away layer", dir, err, "set XDG_DATA_HOME to a folder of your own, or use --upper or --read-only"}, swept)
		}
	}
	lock, err := lockFolder(p.Facts.Scratch)
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(remove(p.Facts.Scratch), unix.Close(lock), swept) }, nil
}

// makeScratch makes an upper layer and its work folder, which belong to the
// container's root. Its ids may pass through the folders above, when root is the
// caller, and read nothing in them.
func (p *Plan) makeScratch(dir string) error {
	mode := os.FileMode(0o700)
	if p.Facts.IDs.Privileged {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if err := ours(filepath.Dir(p.Facts.Scratch)); err != nil {
		return err
	}
	uid, _ := p.Maps.UID.ToOutside(0)
	gid, _ := p.Maps.GID.ToOutside(0)
	for name, mode := range map[string]os.FileMode{"upper": 0o755, "work": 0o700} {
		if err := os.Mkdir(dir+"/"+name, mode); err != nil {
			return err
		}
		if !p.Facts.IDs.Privileged {
			continue
		}
		if err := os.Chown(dir+"/"+name, int(uid), int(gid)); err != nil {
			return err
		}
	}
	return os.Chmod(dir+"/upper", 0o755) // whatever the umask
}

// ours refuses a folder that somebody else could exchange: /var/tmp is everybody's.
func ours(dir string) error {
	for ; len(dir) > len("/var/tmp"); dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: dir, Err: err}
		}
		if foreign := int(st.Uid) != os.Geteuid(); strings.HasPrefix(dir, "/var/tmp/") && (foreign || st.Mode&unix.S_IFMT != unix.S_IFDIR) {
			return fmt.Errorf("%s is somebody else's: %w", dir, unix.EPERM)
		}
	}
	return nil
}

func lockFolder(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "flock", Path: dir, Err: err}
	}
	return fd, nil
}

// sweepScratch removes the folders whose lock nobody holds. One that is younger
// than a minute may be between its mkdir and its lock.
func sweepScratch(parent string, remove func(string) error) error {
	entries, _ := os.ReadDir(parent)
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if fd, err := lockFolder(parent + "/" + e.Name()); err == nil {
			errs = append(errs, remove(parent+"/"+e.Name()))
			unix.Close(fd)
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a folder. Files of the container's other ids aren't ours
// to remove: that takes a user namespace with the same map, where rm(1) runs.
func removeTree(ctx context.Context, s *nsexec.Spawner, m userns.Mapping, facts *Facts, dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	c := &compiler{maps: m, facts: facts, opts: &Options{Root: Root{Kind: RootHost}}, flags: unix.CLONE_NEWUSER}
	plan := &nsexec.Plan{Host: c.hostLane(), DropsDumpable: c.dropsDumpable()}
	plan.Child = append(append(c.guardSteps(), c.gateSteps()...), nsexec.CheckLifeline(c.lifeline())...)
	plan.Child = append(plan.Child, nsexec.CloseRange(3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close the rest at execve"),
		nsexec.UnblockSignals().Named("unblock signals"))
	for _, path := range candidates("rm", nil) {
		plan.Child = append(plan.Child, nsexec.Execve(path, []string{"rm", "-rf", "--", dir}, nil).
			Named("execute ", path).Allow("the next folder of PATH is tried", unix.ENOENT, unix.EACCES))
	}
	proc, _, err := s.Start(context.WithoutCancel(ctx), plan)
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	defer proc.Close()
	status, err := proc.Wait()
	if err == nil && status.ExitCode() != 0 {
		err = fmt.Errorf("rm -rf %s in the container's user namespace: %s", dir, status)
	}
	return err
}
