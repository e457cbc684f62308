package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/container"
)

func (f *Facts) judgeMountAPI() Check {
	if c, done := f.early(f.MountAPI, "fsopen, fsmount, open_tree, move_mount, mount_setattr"); done {
		return c
	}
	if f.MountAPI.Errno == unix.ENOSYS && f.Policy.Seccomp != 2 {
		return cant(container.Cause{Code: "mount-api-kernel", What: "this kernel, " + f.Kernel + ", lacks a call: " + f.MountAPI.Err, Remedy: "wolffia needs Linux 5.12"})
	}
	return cant(f.refused(f.MountAPI, "see mount_namespaces(7)"))
}

func hiddenProc(hidepid string) container.Cause {
	if hidepid == "" {
		return container.UnseenChild()
	}
	return container.Cause{Code: "hidepid", What: "/proc is mounted with hidepid=" + hidepid + ": a process that changed its ids is out of sight or not ours to look at",
		Remedy: "as root: mount -o remount,hidepid=0 /proc, or give this user's group the option gid= (proc(5))"}
}

func (f *Facts) judgeProc() Check {
	c, done := f.early(f.Proc, "a new one is mounted in a pid namespace")
	if !done && f.Proc.Errno == unix.EPERM && f.Policy.Seccomp != 2 {
		c, done = cant(container.TooRevealing()), true
	}
	if !done {
		c = cant(f.refused(f.Proc, "see pid_namespaces(7)"))
	}
	if f.HidePID == "" {
		return c
	}
	if c.State == Works {
		c = but(c.Detail, hiddenProc(f.HidePID))
	} else if c.Reason != reasonNeedsUserns && f.Proc.Tried {
		c.Causes = append(c.Causes, hiddenProc(f.HidePID))
	}
	return c.with("hidepid", f.HidePID)
}

func (f *Facts) judgeOverlay() Check {
	o := f.Overlay
	c := f.judgeLayers()
	if c.Detail != "" && o.Fuse.Path != "" {
		c.Detail += "; fuse-overlayfs is there too, and not used"
	}
	return c.with("tmpfs", o.Tmpfs.OK()).with("folder", o.Folder).with("file_system", o.FSType).with("folder_works", o.Disk.OK()).
		with("fuse_overlayfs", o.Fuse.Path).with("fuse_overlayfs_version", o.Fuse.Version)
}

func (f *Facts) judgeLayers() Check {
	o := f.Overlay
	disk := fmt.Sprintf("%s (%s)", o.Folder, o.FSType)
	switch {
	case o.Tmpfs.OK() && o.Disk.OK():
		return works("by the kernel, with changes on tmpfs or in " + disk)
	case o.Tmpfs.OK() && o.Disk.Tried:
		return but("by the kernel, with changes on tmpfs", container.Cause{Code: "overlay-folder", What: fmt.Sprintf("no upper layer lies in %s: %s", disk, o.Disk.Err),
			Remedy: "name another place with --upper: ext4, xfs or btrfs will do; overlay and network file systems won't"})
	case o.Disk.OK():
		return but("by the kernel, with changes in "+disk, container.Cause{Code: "overlay-tmpfs", What: "a tmpfs takes no user.overlay attributes: " + o.Tmpfs.Err,
			Remedy: "Linux 6.6 brought them; until then throw-away layers lie in a folder of yours"})
	}
	if c, done := f.early(o.Tmpfs, ""); done {
		return c
	}
	if f.Policy.Seccomp != 2 && o.Tmpfs.Step == "mount the overlay" {
		if cause := container.NoOverlay(o.Tmpfs.Errno, f.Kernel); cause.Code != "" {
			return cant(cause)
		}
	}
	return cant(f.refused(o.Tmpfs, "use --read-only"))
}

func (f *Facts) judgeIDMap() Check {
	m := f.IDMap
	home := fmt.Sprintf("%s (%s)", m.Folder, m.FSType)
	cause := m.Cause
	if cause.Code = "idmap-file-system"; cause.What == "" {
		cause.What = m.Home.Err
	}
	var c Check
	switch {
	case m.Home.OK():
		c = works("tmpfs of a container's own, and " + home)
		if !m.Tmpfs.OK() {
			c = but(home, container.Cause{Code: "idmap-tmpfs", What: "not a container's own tmpfs: " + m.Tmpfs.Err, Remedy: "Linux 6.3 brought it"})
		}
	case m.Tmpfs.OK():
		cause.What = home + ": " + cause.What
		c = but("a container's own tmpfs", cause)
	default:
		var done bool
		if c, done = f.early(m.Tmpfs, ""); !done {
			c = cant(f.refused(m.Tmpfs, cause.Remedy))
		}
	}
	return c.with("tmpfs", m.Tmpfs.OK()).with("folder", m.Folder).with("file_system", m.FSType).with("folder_works", m.Home.OK())
}
