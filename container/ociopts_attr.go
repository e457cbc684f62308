package container

import "golang.org/x/sys/unix"

// mountAttrs are the attr_set and attr_clr of mount_setattr(2).
type mountAttrs struct {
	set, clear uint64
}

// change applies an option and returns the attributes that it speaks of, 0 if
// it isn't about attributes. Whatever came before, the option holds afterwards.
func (a *mountAttrs) change(opt string) uint64 {
	switch opt {
	case "ro":
		return a.on(unix.MOUNT_ATTR_RDONLY)
	case "rw":
		return a.off(unix.MOUNT_ATTR_RDONLY)
	case "nosuid":
		return a.on(unix.MOUNT_ATTR_NOSUID)
	case "suid":
		return a.off(unix.MOUNT_ATTR_NOSUID)
	case "nodev":
		return a.on(unix.MOUNT_ATTR_NODEV)
	case "dev":
		return a.off(unix.MOUNT_ATTR_NODEV)
	case "noexec":
		return a.on(unix.MOUNT_ATTR_NOEXEC)
	case "exec":
		return a.off(unix.MOUNT_ATTR_NOEXEC)
	case "nodiratime":
		return a.on(unix.MOUNT_ATTR_NODIRATIME)
	case "diratime":
		return a.off(unix.MOUNT_ATTR_NODIRATIME)
	case "nosymfollow":
		return a.on(unix.MOUNT_ATTR_NOSYMFOLLOW)
	case "symfollow":
		return a.off(unix.MOUNT_ATTR_NOSYMFOLLOW)
	case "noatime":
		return a.atime(unix.MOUNT_ATTR_NOATIME)
	case "relatime":
		return a.atime(unix.MOUNT_ATTR_RELATIME)
	case "strictatime":
		return a.atime(unix.MOUNT_ATTR_STRICTATIME)
	case "atime":
		return a.atimeUnlike(unix.MOUNT_ATTR_NOATIME, unix.MOUNT_ATTR_RELATIME)
	case "nostrictatime":
		return a.atimeUnlike(unix.MOUNT_ATTR_STRICTATIME, unix.MOUNT_ATTR_RELATIME)
	case "norelatime":
		return a.atimeUnlike(unix.MOUNT_ATTR_RELATIME, unix.MOUNT_ATTR_STRICTATIME)
	}
	return 0
}

func (a *mountAttrs) on(bit uint64) uint64 {
	a.set, a.clear = a.set|bit, a.clear&^bit
	return bit
}

func (a *mountAttrs) off(bit uint64) uint64 {
	a.set, a.clear = a.set&^bit, a.clear|bit
	return bit
}

// atime chooses one of three ways to keep access times: a field of several
// bits, not flags, which mount_setattr(2) only takes when all of it is cleared.
func (a *mountAttrs) atime(choice uint64) uint64 {
	a.set = a.set&^unix.MOUNT_ATTR__ATIME | choice
	a.clear |= unix.MOUNT_ATTR__ATIME
	return unix.MOUNT_ATTR__ATIME
}

// atimeUnlike keeps a choice made before unless it is the unwanted one.
// mount(8) only withdraws its flag for norelatime, which leaves the kernel's
// default, relatime: the opposite of what was asked.
func (a *mountAttrs) atimeUnlike(unwanted, instead uint64) uint64 {
	chosen := a.clear&unix.MOUNT_ATTR__ATIME != 0
	if chosen && a.set&unix.MOUNT_ATTR__ATIME != unwanted {
		return unix.MOUNT_ATTR__ATIME
	}
	return a.atime(instead)
}

func (a *mountAttrs) forget(bits uint64) {
	a.set, a.clear = a.set&^bits, a.clear&^bits
}
