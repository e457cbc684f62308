package doctor

import (
	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/container"
	"wolffia.dev/userns"
)

// Facts are what trying showed.
type Facts struct {
	Kernel string
	UID    int
	Policy container.Policy // read, to tell why something was refused

	Userns Attempt // a user namespace with our own id, and a mount in it
	Depth  int     // how many more can be nested in ours, as far as was tried
	IDs    *userns.Facts
	IDsErr error
	Mapped Attempt // a namespace with all sub-ids, by newuidmap and newgidmap
	FDs    []Mechanism
	Pidfd  []Part
	Ptrace Attempt // PTRACE_TRACEME
	Yama   string  // kernel.yama.ptrace_scope, "" without Yama

	MountAPI Attempt
	Proc     Attempt // a new proc in a new pid namespace
	HidePID  string  // of /proc: "1", "2", …; "" for none
	Overlay  Overlay
	IDMap    IDMap

	Cgroups    *cgroup.Facts
	CgroupsErr error

	Netns   Attempt
	Tun     Attempt
	Drivers []Binary

	Seccomp Attempt
	Timens  Timens
	Keyring Attempt
	Limits  []Limit

	Started *Started // `true` in a container with every default; nil: not tried
}

// An Attempt is what a throw-away child was to do. The zero value was not tried.
type Attempt struct {
	Tried bool
	Step  string // that failed: "mount a tmpfs"
	Call  string
	Errno unix.Errno
	Err   string // the error whole; "" if nothing failed
}

// OK tells that it was tried and worked.
func (a Attempt) OK() bool { return a.Tried && a.Err == "" }

// Mechanism is one way to get a user namespace as an fd (package userns).
type Mechanism struct {
	Name string
	Attempt
}

// Part is one part of pidfd support.
type Part struct {
	Name, Since string
	Errno       unix.Errno // 0: it is there
}

// Overlay is overlayfs in a user namespace, its upper layer on tmpfs and on disk.
type Overlay struct {
	Tmpfs, Disk Attempt
	Folder      string // where Disk's layers lay
	FSType      string // of Folder
	Fuse        Binary // fuse-overlayfs
}

// IDMap is MOUNT_ATTR_IDMAP.
type IDMap struct {
	Tmpfs  Attempt // the namespace's own tmpfs
	Home   Attempt // the file system of Folder
	Folder string
	FSType string
	Cause  container.Cause // why not Home
}

// Binary is a program that was looked for in PATH.
type Binary struct {
	Name, Path, Version string // Path is "" if there is none
}

// Timens is a program started in a new time namespace.
type Timens struct {
	Attempt
	Inside bool // the program itself is in it, not only its children
}

// Limit is one limit of this process, as it was started.
type Limit struct {
	Name       string
	Soft, Hard uint64
}

// Started is a container with every default.
type Started struct {
	Err    string // why it didn't run, with cause and remedy
	Single string // how it went with --map single, when it didn't run
}
