package container

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/mount"
	"wolffia.dev/userns"
)

// Facts are everything about this machine that a plan depends on. They are
// plain data: saved by `explain --facts-save`, they plan for another machine.
type Facts struct {
	Kernel   string        `json:"kernel"` // uname -r
	Arch     string        `json:"arch"`
	IDs      *userns.Facts `json:"ids"`
	Features Features      `json:"features"`
	Limits   Limits        `json:"limits"`

	Paths   map[string]mount.FileType     `json:"paths"`              // masked and read-only paths
	Sources map[string]mount.FileType     `json:"sources,omitempty"`  // bind sources
	Idmap   map[string][]mount.Filesystem `json:"idmap,omitempty"`    // those to be idmapped: what they lie on, and what is mounted below
	TopDirs []TopEntry                    `json:"top_dirs,omitempty"` // of /, for a view of the host
	Under   []string                      `json:"under,omitempty"`    // mount points below /etc and /var
	Entries map[string][]TopEntry         `json:"entries,omitempty"`  // of /etc or /var, when something is mounted below it
	Cgroups cgroup.Tree                   `json:"cgroups"`            // what stands at /sys/fs/cgroup
	Cgroup  *cgroup.Facts                 `json:"cgroup,omitempty"`   // where we are in it; nil: nobody asked for limits
	Scratch string                        `json:"scratch,omitempty"`  // where throw-away layers go without TmpfsXattr
}

// Features are what this kernel can do.
type Features struct {
	MountSetattr bool `json:"mount_setattr"`     // 5.12, read-only bind trees; the oldest kernel that is enough
	PerLayer     bool `json:"overlay_lowerdir+"` // 6.7, one fsconfig for each layer
	TmpfsXattr   bool `json:"tmpfs_user_xattr"`  // 6.6, probed: an upper layer may lie on tmpfs
}

// Limits are our resource limits, as the container shall get them.
type Limits map[string]Limit

// Limit is one resource limit.
type Limit struct{ Soft, Hard uint64 }

// TopEntry is a name in / or, where the folder is shown entry by entry, in /etc
// or /var.
type TopEntry struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // of a symbolic link
	File   bool   `json:"file,omitempty"`   // no folder
}

// Probe looks at this machine, as far as the plan for spec and o needs it. It
// changes nothing and starts no process (but getsubids(1), where sub-ids come
// from a directory service).
func Probe(spec *specs.Spec, o *Options) (*Facts, error) {
	f := &Facts{Arch: runtime.GOARCH, Paths: map[string]mount.FileType{}, Sources: map[string]mount.FileType{}}
	ids := probeIDs(o.Map.Mode)
	if err := f.probeKernel(); err != nil {
		return nil, err
	}
	if o.Root.Kind == RootOverlay || o.Root.Kind == RootHost {
		f.probeScratch()
	}
	var err error
	if f.Limits, err = probeLimits(spec); err != nil {
		return nil, err
	}
	if err := checkDevices(); err != nil {
		return nil, err
	}
	if err := f.probeRoot(spec, o); err != nil {
		return nil, err
	}
	if err := probeFDs(o.PreserveFDs); err != nil {
		return nil, err
	}
	if err := f.probeSources(spec); err != nil {
		return nil, err
	}
	if err := f.probeCgroups(spec, o); err != nil {
		return nil, err
	}
	found := <-ids
	f.IDs = found.facts
	return f, found.err
}

type foundIDs struct {
	facts *userns.Facts
	err   error
}

// probeIDs looks for the caller's ids beside everything else: a third of all
// that is to be read.
func probeIDs(mode userns.Mode) <-chan foundIDs {
	found := make(chan foundIDs, 1)
	go func() {
		f, err := userns.Probe(userns.ProbeOptions{Mode: mode})
		found <- foundIDs{f, err}
	}()
	return found
}

func (f *Facts) probeKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return os.NewSyscallError("uname", err)
	}
	f.Kernel = unix.ByteSliceToString(u.Release[:])
	f.Features = Features{
		MountSetattr: f.atLeast(5, 12),
		PerLayer:     f.atLeast(6, 7),
	}
	f.Cgroups = cgroup.Look(cgroup.Root)
	return nil
}

func (f *Facts) atLeast(major, minor int) bool {
	digits := strings.FieldsFunc(f.Kernel, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) < 2 {
		return false
	}
	a, _ := strconv.Atoi(digits[0])
	b, _ := strconv.Atoi(digits[1])
	return a > major || a == major && b >= minor
}

// probeScratch decides where a throw-away layer can lie.
func (f *Facts) probeScratch() {
	if f.Features.TmpfsXattr = tmpfsHasUserXattrs(); !f.Features.TmpfsXattr {
		f.Scratch = newScratch()
	}
}

// tmpfsHasUserXattrs tries one on a memfd, a file of the kernel's own tmpfs.
func tmpfsHasUserXattrs() bool {
	fd, err := unix.MemfdCreate("wolffia-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, "user.wolffia", []byte("1"), 0) == nil
}

// fileType looks at a path without following a final link.
func fileType(path string) mount.FileType {
	var st unix.Stat_t
	switch {
	case unix.Lstat(path, &st) != nil:
		return mount.Absent
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return mount.Directory
	}
	return mount.File
}

// probeRoot looks at the root and at what will be masked in it.
func (f *Facts) probeRoot(spec *specs.Spec, o *Options) error {
	if o.Root.Kind == RootHost {
		f.probeHostView()
	} else if err := checkRoot(o.Root); err != nil {
		return err
	}
	if spec.Linux == nil {
		return nil
	}
	for _, p := range slices.Concat(spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths) {
		f.Paths[p] = fileType(hostPath(spec, o, p))
	}
	return nil
}

// hostPath is where a path of the container lies on the host: below the bind
// mount that covers it, or below the root. What another file system covers is
// empty when the container starts: "" is nowhere.
func hostPath(spec *specs.Spec, o *Options, p string) string {
	p = filepath.Clean(p)
	host, best := filepath.Join(o.Root.Path, p), 0
	for _, m := range spec.Mounts {
		dest := filepath.Clean(m.Destination)
		if p != dest && !strings.HasPrefix(p, dest+"/") || len(dest) < best {
			continue
		}
		best, host = len(dest), ""
		if source := shownBy(m); source != "" {
			host = filepath.Join(source, p[len(dest):])
		} else if p == dest {
			host = "/" // the mount itself: a folder
		}
	}
	return host
}

// shownBy is the folder of the host that looks like what a mount shows; "" for
// one that is empty at the start.
func shownBy(m specs.Mount) string {
	if asksBind(m.Options) {
		return m.Source
	}
	return map[string]string{"proc": "/proc", "sysfs": "/sys", "cgroup": "/sys/fs/cgroup"}[m.Type]
}

// checkDevices makes sure that the nodes to be bound are what their names say:
// masks rely on /dev/null (Linux allocated devices: memory devices are major 1).
func checkDevices() error {
	for _, device := range []struct {
		name  string
		minor uint32
	}{{"null", 3}, {"zero", 5}, {"full", 7}, {"random", 8}, {"urandom", 9}} {
		name, minor := device.name, device.minor
		var st unix.Stat_t
		err := unix.Stat("/dev/"+name, &st)
		if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || uint64(st.Rdev) != unix.Mkdev(1, minor)) {
			err = unix.ENODEV
		}
		if err != nil {
			return &InputError{"a device that every container gets", "/dev/" + name, err,
				fmt.Sprintf("it has to be the character device 1:%d: is /dev mounted here?", minor)}
		}
	}
	return nil
}

// probeSources looks at what is to be bound.
func (f *Facts) probeSources(spec *specs.Spec) error {
	for _, m := range spec.Mounts {
		if !asksBind(m.Options) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(m.Source, &st); err != nil {
			remedy := "make it, or mend the path"
			if err == unix.EACCES {
				remedy = "this user can't reach it: chmod or chown a folder on the way, or name another one"
			}
			return &InputError{What: "the source of the mount at " + m.Destination, Path: m.Source, Err: err, Remedy: remedy}
		}
		f.Sources[m.Source] = mount.File
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			f.Sources[m.Source] = mount.Directory
		}
		if err := f.probeIDMap(m); err != nil {
			return err
		}
	}
	return nil
}

// probeIDMap looks at the file systems that a mount wants an id map for.
func (f *Facts) probeIDMap(m specs.Mount) error {
	if !asksIDMap(m) {
		return nil
	}
	found, err := mount.Filesystems(m.Source)
	if err != nil {
		return &InputError{What: "the source of the mount at " + m.Destination, Path: m.Source, Err: err}
	}
	if f.Idmap == nil {
		f.Idmap = map[string][]mount.Filesystem{}
	}
	f.Idmap[m.Source] = found
	return nil
}

// probeFDs checks that the fds to be passed on are there. One that we or the Go
// runtime opened is close-on-exec and doesn't count.
func probeFDs(n int) error {
	for fd := 3; fd < 3+n; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return &InputError{What: fmt.Sprintf("--preserve-fds %d", n), Path: fmt.Sprintf("fd %d", fd), Err: unix.EBADF,
				Remedy: fmt.Sprintf("open every fd from 3 to %d before the start, or ask for fewer", 2+n)}
		}
	}
	return nil
}

// InputError is something that the caller named and that can't be used.
type InputError struct {
	What   string // what it was to be
	Path   string
	Err    error
	Remedy string
}

func (e *InputError) Error() string {
	msg := fmt.Sprintf("%s: %s: %s", e.What, e.Path, reason(e.Err))
	if e.Remedy != "" {
		msg += "\n  " + e.Remedy
	}
	return msg
}

func (e *InputError) Unwrap() error { return e.Err }

// reason is an errno with its name, or the error as it is.
func reason(err error) string {
	if errno, bare := err.(unix.Errno); bare {
		return errnoText(errno)
	}
	return err.Error()
}
