package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/container"
	"wolffia.dev/userns"
)

// Pretend gives the facts of a worse machine, where each of these is so: see
// Pretences. It is pure, and f stays as it was. An error is an *UnknownNameError
// or a *ValueError. What was started on this machine is forgotten.
func (f *Facts) Pretend(names ...string) (*Facts, error) {
	worse := f.clone()
	for _, name := range names {
		if err := worse.pretend(name); err != nil {
			return nil, err
		}
	}
	if len(names) > 0 {
		worse.Started = nil
		worse.follow()
	}
	return worse, nil
}

// ValueError is a pretence whose value can't be understood.
type ValueError struct{ Name, Value, Want string }

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s=%s: want %s", e.Name, e.Value, e.Want)
}

func (f *Facts) pretend(text string) error {
	name, value, has := strings.Cut(text, "=")
	for _, p := range pretences() {
		switch {
		case p.name != name:
			continue
		case has != (p.want != ""):
			return &ValueError{name, value, orNothing(p.want)}
		case has && !p.fits(value):
			return &ValueError{name, value, p.want}
		}
		p.change(f, value)
		return nil
	}
	if f.Cgroups == nil {
		if slices.Contains(cgroup.Pretences(), text) {
			return nil
		}
	} else if worse, ok := f.Cgroups.Pretend(text); ok {
		f.Cgroups = worse
		return nil
	}
	return &UnknownNameError{"pretence", text, Pretences()}
}

func orNothing(want string) string {
	if want == "" {
		return "no value"
	}
	return want
}

// Pretences are the names that Pretend knows, with "=" where a value follows.
func Pretences() []string {
	names := cgroup.Pretences()
	for _, p := range pretences() {
		if p.want != "" {
			names = append(names, p.name+"=")
			continue
		}
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// A pretence is one way in which a machine is worse.
type pretence struct {
	name   string
	want   string // what the value has to be; "" for none
	change func(f *Facts, value string)
}

func (p pretence) fits(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n >= 0 && (p.name != "yama" || n <= 3)
}

const number = "a number"

func pretences() []pretence {
	return slices.Concat(idPretences(), processPretences(), mountPretences(), networkPretences())
}

// fails is an attempt that met an errno.
func fails(step, call string, errno unix.Errno) Attempt {
	return Attempt{Tried: true, Step: step, Call: call, Errno: errno, Err: fmt.Sprintf("%s: %s: %s", step, call, errnoText(errno))}
}

const cloneCall = "clone3({flags=CLONE_NEWUSER|…})"

func idPretences() []pretence {
	ids := func(name string, change func(*userns.Facts)) pretence {
		return pretence{name, "", func(f *Facts, _ string) {
			if f.IDs != nil {
				change(f.IDs)
			}
		}}
	}
	return []pretence{
		{"max-userns", number, func(f *Facts, value string) {
			n, _ := strconv.Atoi(value)
			f.Policy.NamespaceLimits = []container.NamespaceLimit{{Sysctl: "user.max_user_namespaces", Max: n}}
			f.Userns = fails(stepMake, cloneCall, unix.ENOSPC)
		}},
		{"no-userns-clone", "", func(f *Facts, _ string) {
			f.Policy.UsernsClone, f.Userns = "0", fails(stepMake, cloneCall, unix.EPERM)
		}},
		{"apparmor", "", func(f *Facts, _ string) {
			f.Policy.AppArmorUserns = "1"
			f.Userns = fails("mount a tmpfs", `mount("tmpfs", "/dev", "tmpfs", 0, NULL)`, unix.EACCES)
		}},
		{"seccomp-userns", "", func(f *Facts, _ string) {
			f.Policy.Seccomp, f.Userns = 2, fails(stepMake, cloneCall, unix.EPERM)
		}},
		ids("no-newuidmap", func(f *userns.Facts) {
			f.NewUIDMap = userns.Tool{Name: "newuidmap", Searched: []string{"/usr/bin", "/bin"}}
		}),
		ids("no-newgidmap", func(f *userns.Facts) {
			f.NewGIDMap = userns.Tool{Name: "newgidmap", Searched: []string{"/usr/bin", "/bin"}}
		}),
		ids("newuidmap-plain", func(f *userns.Facts) { f.NewUIDMap.Mode, f.NewUIDMap.FileCaps = 0o755, false }),
		ids("no-new-privs", func(f *userns.Facts) { f.NoNewPrivs = true }),
		ids("no-subids", func(f *userns.Facts) { f.SubUID, f.SubGID = nil, nil }),
		ids("few-subids", func(f *userns.Facts) { f.SubUID, f.SubGID = fewIDs("/etc/subuid"), fewIDs("/etc/subgid") }),
	}
}

// fewIDs are two ranges, too short, of which one names its owner by number.
func fewIDs(file string) []userns.Range {
	return []userns.Range{{Start: 200000, Count: 1000, Source: file + " line 1 (by uid)"}, {Start: 300000, Count: 500, Source: file + " line 2 (by name)"}}
}

func processPretences() []pretence {
	const traceme = "ptrace(PTRACE_TRACEME, 0, NULL, NULL)"
	limit := func(name string) pretence {
		return pretence{name, number, func(f *Facts, value string) {
			n, _ := strconv.ParseUint(value, 10, 64)
			for i, l := range f.Limits {
				if l.Name == name {
					f.Limits[i].Soft, f.Limits[i].Hard = n, n
				}
			}
		}}
	}
	return []pretence{
		{"yama", "0, 1, 2 or 3", func(f *Facts, value string) {
			f.Yama = value
			if value > "1" {
				f.Ptrace = fails("be traced", traceme, unix.EPERM)
			}
		}},
		{"seccomp-ptrace", "", func(f *Facts, _ string) {
			f.Policy.Seccomp, f.Yama, f.Ptrace = 2, "", fails("be traced", traceme, unix.EPERM)
			for i, m := range f.FDs {
				if m.Name == string(userns.Ptrace) {
					f.FDs[i].Attempt = fails("make the child", traceme, unix.EPERM)
				}
			}
		}},
		{"no-pidfd", "", func(f *Facts, _ string) {
			for i, p := range f.Pidfd {
				if p.Name == "pidfd_open(2)" || p.Name == "waitid(P_PIDFD)" {
					f.Pidfd[i].Errno = unix.ENOSYS
				}
			}
		}},
		{"no-seccomp", "", func(f *Facts, _ string) {
			f.Seccomp = fails("install a filter", "seccomp(SECCOMP_SET_MODE_FILTER, 0, {4 instructions})", unix.EINVAL)
		}},
		{"no-timens", "", func(f *Facts, _ string) {
			f.Timens = Timens{Attempt: fails("make a time namespace", "unshare(CLONE_NEWTIME)", unix.EINVAL)}
		}},
		{"timens-children", "", func(f *Facts, _ string) { f.Timens = Timens{Attempt: Attempt{Tried: true}} }},
		{"seccomp-keyctl", "", func(f *Facts, _ string) {
			f.Policy.Seccomp, f.Keyring = 2, fails("new session keyring", "keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)", unix.EPERM)
		}},
		{"key-quota", "", func(f *Facts, _ string) {
			f.Keyring = fails("new session keyring", "keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)", unix.EDQUOT)
		}},
		limit("nofile"), limit("nproc"),
	}
}

func mountPretences() []pretence {
	const mountCall = `mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,volatile,userxattr")`
	both := func(errno unix.Errno) func(*Facts, string) {
		return func(f *Facts, _ string) {
			f.Overlay.Tmpfs = fails("mount the overlay", mountCall, errno)
			f.Overlay.Disk = f.Overlay.Tmpfs
		}
	}
	return []pretence{
		{"no-overlay", "", both(unix.ENODEV)},
		{"no-overlay-userns", "", both(unix.EPERM)},
		{"no-tmpfs-xattr", "", func(f *Facts, _ string) {
			f.Overlay.Tmpfs = fails("make it again", `mkdirat(AT_FDCWD, "merged/folder", 0755)`, unix.EIO)
		}},
		{"overlay-home", "", func(f *Facts, _ string) {
			f.Overlay.FSType, f.Overlay.Disk = "overlay", fails("mount the overlay", mountCall, unix.EINVAL)
		}},
		{"no-mount-setattr", "", func(f *Facts, _ string) {
			f.MountAPI = fails("make it read-only", "mount_setattr(mount, \"\", AT_EMPTY_PATH, {attr_set=MOUNT_ATTR_RDONLY}, 32)", unix.ENOSYS)
		}},
		{"masked-proc", "", func(f *Facts, _ string) {
			f.Proc = fails("mount proc", `mount("proc", "/proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, NULL)`, unix.EPERM)
		}},
		{"hidepid", "", func(f *Facts, _ string) { f.HidePID = "2" }},
		{"no-idmap", "", func(f *Facts, _ string) {
			f.IDMap.Tmpfs = fails("idmap the tmpfs", "mount_setattr(mount, \"\", AT_EMPTY_PATH, {attr_set=MOUNT_ATTR_IDMAP}, 32)", unix.EINVAL)
			f.IDMap.Home, f.IDMap.Cause = f.IDMap.Tmpfs, container.Cause{}
		}},
	}
}

func networkPretences() []pretence {
	without := func(name string) pretence {
		return pretence{"no-" + name, "", func(f *Facts, _ string) {
			for i, b := range f.Drivers {
				if b.Name == name {
					f.Drivers[i] = Binary{Name: name}
				}
			}
		}}
	}
	open := `openat(AT_FDCWD, "` + tunDevice + `", O_RDWR|O_CLOEXEC, 00)`
	return []pretence{
		{"no-tun", "", func(f *Facts, _ string) { f.Tun = fails("open "+tunDevice, open, unix.ENOENT) }},
		{"tun-denied", "", func(f *Facts, _ string) { f.Tun = fails("open "+tunDevice, open, unix.EACCES) }},
		without("slirp4netns"), without("pasta"), without("vpnkit"),
	}
}

// follow has what needs a user namespace fail where none can be made.
func (f *Facts) follow() {
	if f.Userns.OK() || !f.Userns.Tried {
		return
	}
	for _, a := range []*Attempt{&f.Mapped, &f.MountAPI, &f.Proc, &f.Overlay.Tmpfs, &f.Overlay.Disk, &f.IDMap.Tmpfs, &f.IDMap.Home, &f.Netns, &f.Tun, &f.Timens.Attempt} {
		if a.Tried {
			*a = Attempt{Tried: true, Step: stepMake, Errno: f.Userns.Errno, Err: f.Userns.Err}
		}
	}
	for i := range f.FDs {
		f.FDs[i].Attempt = Attempt{Tried: true, Step: stepMake, Errno: f.Userns.Errno, Err: f.Userns.Err}
	}
}

// clone copies what Pretend changes.
func (f *Facts) clone() *Facts {
	c := *f
	if f.IDs != nil {
		ids := *f.IDs
		c.IDs = &ids
	}
	c.FDs, c.Pidfd, c.Drivers, c.Limits = slices.Clone(f.FDs), slices.Clone(f.Pidfd), slices.Clone(f.Drivers), slices.Clone(f.Limits)
	return &c
}
