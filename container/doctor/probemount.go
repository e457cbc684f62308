package doctor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
)

// mountAPI makes a mount detached, changes and attaches it, and clones another.
func (p *prober) mountAPI() {
	fs, made := nsexec.Slot("fs"), nsexec.Slot("mount")
	p.MountAPI = p.do(child{flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, steps: nsexec.Program{
		nsexec.Fsopen("tmpfs").Named("open a new tmpfs").As("fs"),
		nsexec.FsconfigString(fs, "size", "64k").Named("a tmpfs option"),
		nsexec.FsconfigCreate(fs).Named("create the tmpfs"),
		nsexec.Fsmount(fs, 0).Named("mount it, detached").As("mount"),
		nsexec.MountSetattr(made, 0, nsexec.MountAttr{Set: unix.MOUNT_ATTR_RDONLY}).Named("make it read-only"),
		nsexec.MoveMount(made, nsexec.AtCWD(), "/dev").Named("attach it"),
		nsexec.OpenTree(nsexec.AtCWD(), "/dev", unix.OPEN_TREE_CLONE).Named("clone a mount"),
	}})
}

// proc mounts a proc, which takes a pid namespace of our own and a proc outside
// that nothing covers.
func (p *prober) proc() {
	p.HidePID = hidePID()
	p.Proc = p.do(child{flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID, steps: nsexec.Program{
		nsexec.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "").Named("mount proc"),
	}})
}

// overlay stacks folders, makes changes where a kernel that lacks something
// fails late, and looks for fuse-overlayfs.
func (p *prober) overlay() {
	tmpfs := nsexec.Program{nsexec.Mount("tmpfs", "/dev", "tmpfs", 0, "").Named("mount a tmpfs"), chdir("/dev")}
	for _, dir := range []string{"lower", "lower/folder", "upper", "work", "merged"} {
		tmpfs = append(tmpfs, nsexec.Mkdirat(nsexec.AtCWD(), dir, 0o755).Named("folder "+dir))
	}
	const flags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	p.Overlay.Tmpfs = p.do(child{flags: flags, steps: append(tmpfs, stack()...)})
	p.Overlay.Folder, p.Overlay.Fuse = layersParent(), p.binary("fuse-overlayfs")
	p.Overlay.FSType = fsType(p.Overlay.Folder)
	sweepLayers(p.Overlay.Folder)
	dir, err := layers(p.Overlay.Folder)
	if err == nil {
		p.Overlay.Disk = p.do(child{flags: flags, steps: append(nsexec.Program{chdir(dir)}, stack()...)})
	}
	if removed := removeLayers(dir); err == nil {
		err = removed
	}
	if err != nil {
		p.Overlay.Disk = failed(err)
	}
}

// stack mounts lower and upper over each other at merged. A folder of the lower
// layer is removed and made again: before Linux 6.6 a tmpfs has no user xattrs,
// and the mount works, but this doesn't.
func stack() nsexec.Program {
	at := nsexec.AtCWD()
	return nsexec.Program{
		nsexec.Mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,volatile,userxattr").Named("mount the overlay"),
		nsexec.Step{Call: unix.SYS_UNLINKAT, Args: []nsexec.Arg{at, nsexec.Str("merged/folder"), nsexec.Const("AT_REMOVEDIR", unix.AT_REMOVEDIR)}}.Named("remove a folder of the lower layer"),
		nsexec.Mkdirat(at, "merged/folder", 0o755).Named("make it again"),
	}
}

func chdir(dir string) nsexec.Step {
	return nsexec.Step{Call: unix.SYS_CHDIR, Args: []nsexec.Arg{nsexec.Str(dir)}}.Named("enter " + dir)
}

// idmap idmaps a tmpfs of the container's own, and the file system that our home
// lies on.
func (p *prober) idmap() {
	p.IDMap.Folder = home()
	p.IDMap.FSType = fsType(p.IDMap.Folder)
	p.IDMap.Tmpfs = p.idmapTmpfs()
	ns, err := p.usernsFD(justUs(os.Geteuid()), justUs(os.Getegid()))
	if err != nil {
		p.IDMap.Home = failed(err)
		return
	}
	defer unix.Close(ns)
	p.idmapHome(ns)
}

func (p *prober) idmapHome(ns int) {
	f, err := mount.IDMapped(p.IDMap.Folder, ns, false)
	if err == nil {
		p.IDMap.Home = Attempt{Tried: true}
		f.Close()
		return
	}
	p.IDMap.Home = failed(err)
	var fault *mount.IDMapError
	if errors.As(err, &fault) {
		p.IDMap.Home.Call = fault.Call
		p.IDMap.Cause = container.Cause{What: fault.Cause, Remedy: fault.Remedy}
	}
}

// idmapTmpfs takes three children, one after the other, that leave fds to us: who
// idmaps a mount needs CAP_SYS_ADMIN over the namespace that owns the file system
// and over the one whose map it gets, so the second namespace is made inside the
// first (mount_setattr(2), MOUNT_ATTR_IDMAP).
func (p *prober) idmapTmpfs() Attempt {
	kept := lentFDs{}
	defer kept.close()
	program := append(inUserns(0, os.Geteuid(), os.Getegid(), unix.CLONE_NEWUSER|unix.CLONE_NEWNS),
		nsexec.Openat(nsexec.AtCWD(), "/proc/self/ns/user", unix.O_RDONLY, 0).Named("open the namespace").As("outer"),
		nsexec.Openat(nsexec.AtCWD(), "/proc/self/ns/mnt", unix.O_RDONLY, 0).Named("open its mount namespace").As("mnt"),
		nsexec.Fsopen("tmpfs").Named("open a new tmpfs").As("fs"),
		nsexec.FsconfigCreate(nsexec.Slot("fs")).Named("create the tmpfs"),
		nsexec.Fsmount(nsexec.Slot("fs"), 0).Named("mount it, detached").As("mount"))
	if err := kept.run(p.ctx, program); err != nil {
		return failed(err)
	}
	program = append(nsexec.Program{nsexec.Setns(nsexec.Slot("outer"), unix.CLONE_NEWUSER).Named("enter the namespace")}, inUserns(1, 0, 0, unix.CLONE_NEWUSER)...)
	program = append(program, nsexec.Openat(nsexec.AtCWD(), "/proc/self/ns/user", unix.O_RDONLY, 0).Named("open the inner namespace").As("inner"))
	if err := kept.run(p.ctx, program); err != nil {
		return failed(err)
	}
	program = nsexec.Program{
		nsexec.Setns(nsexec.Slot("outer"), unix.CLONE_NEWUSER).Named("enter the namespace"),
		nsexec.Setns(nsexec.Slot("mnt"), unix.CLONE_NEWNS).Named("enter its mount namespace"),
		nsexec.MountSetattr(nsexec.Slot("mount"), 0, nsexec.MountAttr{Set: unix.MOUNT_ATTR_IDMAP, UsernsFD: uint64(kept["inner"])}).Named("idmap the tmpfs"),
	}
	if err := kept.run(p.ctx, program); err != nil {
		return failed(err)
	}
	return Attempt{Tried: true}
}
