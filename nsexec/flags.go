package nsexec

import "golang.org/x/sys/unix"

// Flag vocabularies, spelled as in the UAPI headers. Groups of several bits
// stand before the single bits that they contain.

func named(bits int, name string) FlagName { return FlagName{uint64(uint32(bits)), name} }

var (
	// CloneFlags: clone3(2).
	CloneFlags = FlagNames{
		named(unix.CLONE_VM, "CLONE_VM"), named(unix.CLONE_FILES, "CLONE_FILES"),
		named(unix.CLONE_PIDFD, "CLONE_PIDFD"), named(unix.CLONE_CHILD_CLEARTID, "CLONE_CHILD_CLEARTID"),
		{unix.CLONE_CLEAR_SIGHAND, "CLONE_CLEAR_SIGHAND"}, {unix.CLONE_INTO_CGROUP, "CLONE_INTO_CGROUP"},
		named(unix.CLONE_NEWUSER, "CLONE_NEWUSER"), named(unix.CLONE_NEWNS, "CLONE_NEWNS"),
		named(unix.CLONE_NEWPID, "CLONE_NEWPID"), named(unix.CLONE_NEWIPC, "CLONE_NEWIPC"),
		named(unix.CLONE_NEWUTS, "CLONE_NEWUTS"), named(unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"),
		named(unix.CLONE_NEWNET, "CLONE_NEWNET"),
	}
	// OpenFlags: open(2).
	OpenFlags = FlagNames{
		named(unix.O_PATH, "O_PATH"), named(unix.O_RDWR, "O_RDWR"), named(unix.O_WRONLY, "O_WRONLY"),
		named(unix.O_CREAT, "O_CREAT"), named(unix.O_EXCL, "O_EXCL"), named(unix.O_TRUNC, "O_TRUNC"),
		named(unix.O_DIRECTORY, "O_DIRECTORY"), named(unix.O_NOFOLLOW, "O_NOFOLLOW"),
		named(unix.O_NONBLOCK, "O_NONBLOCK"), named(unix.O_CLOEXEC, "O_CLOEXEC"),
	}
	// ResolveFlags: openat2(2).
	ResolveFlags = FlagNames{
		named(unix.RESOLVE_IN_ROOT, "RESOLVE_IN_ROOT"), named(unix.RESOLVE_BENEATH, "RESOLVE_BENEATH"),
		named(unix.RESOLVE_NO_MAGICLINKS, "RESOLVE_NO_MAGICLINKS"),
		named(unix.RESOLVE_NO_SYMLINKS, "RESOLVE_NO_SYMLINKS"), named(unix.RESOLVE_NO_XDEV, "RESOLVE_NO_XDEV"),
	}
	// MountFlags: mount(2).
	MountFlags = FlagNames{
		named(unix.MS_RDONLY, "MS_RDONLY"), named(unix.MS_NOSUID, "MS_NOSUID"), named(unix.MS_NODEV, "MS_NODEV"),
		named(unix.MS_NOEXEC, "MS_NOEXEC"), named(unix.MS_REMOUNT, "MS_REMOUNT"), named(unix.MS_BIND, "MS_BIND"),
		named(unix.MS_REC, "MS_REC"), named(unix.MS_PRIVATE, "MS_PRIVATE"), named(unix.MS_SLAVE, "MS_SLAVE"),
		named(unix.MS_SHARED, "MS_SHARED"), named(unix.MS_UNBINDABLE, "MS_UNBINDABLE"),
	}
	// AttrFlags: mount_setattr(2), fsmount(2).
	AttrFlags = FlagNames{
		named(unix.MOUNT_ATTR_RDONLY, "MOUNT_ATTR_RDONLY"), named(unix.MOUNT_ATTR_NOSUID, "MOUNT_ATTR_NOSUID"),
		named(unix.MOUNT_ATTR_NODEV, "MOUNT_ATTR_NODEV"), named(unix.MOUNT_ATTR_NOEXEC, "MOUNT_ATTR_NOEXEC"),
		named(unix.MOUNT_ATTR__ATIME, "MOUNT_ATTR__ATIME"),
		named(unix.MOUNT_ATTR_NOATIME, "MOUNT_ATTR_NOATIME"), named(unix.MOUNT_ATTR_STRICTATIME, "MOUNT_ATTR_STRICTATIME"),
		named(unix.MOUNT_ATTR_NODIRATIME, "MOUNT_ATTR_NODIRATIME"),
		named(unix.MOUNT_ATTR_NOSYMFOLLOW, "MOUNT_ATTR_NOSYMFOLLOW"), named(unix.MOUNT_ATTR_IDMAP, "MOUNT_ATTR_IDMAP"),
	}
	// FsmountFlags: fsmount(2). FsopenFlags: fsopen(2).
	FsmountFlags = FlagNames{named(unix.FSMOUNT_CLOEXEC, "FSMOUNT_CLOEXEC")}
	FsopenFlags  = FlagNames{named(unix.FSOPEN_CLOEXEC, "FSOPEN_CLOEXEC")}
	// MoveMountFlags: move_mount(2).
	MoveMountFlags = FlagNames{
		named(unix.MOVE_MOUNT_F_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH"),
		named(unix.MOVE_MOUNT_T_EMPTY_PATH, "MOVE_MOUNT_T_EMPTY_PATH"),
		named(unix.MOVE_MOUNT_T_SYMLINKS, "MOVE_MOUNT_T_SYMLINKS"),
	}
	// OpenTreeFlags: open_tree(2).
	OpenTreeFlags = FlagNames{
		named(unix.OPEN_TREE_CLONE, "OPEN_TREE_CLONE"), named(unix.OPEN_TREE_CLOEXEC, "OPEN_TREE_CLOEXEC"),
		named(unix.AT_RECURSIVE, "AT_RECURSIVE"), named(unix.AT_EMPTY_PATH, "AT_EMPTY_PATH"),
		named(unix.AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_NOFOLLOW"),
	}
	// AtFlags: the flags shared by the *at calls.
	AtFlags = FlagNames{
		named(unix.AT_RECURSIVE, "AT_RECURSIVE"), named(unix.AT_EMPTY_PATH, "AT_EMPTY_PATH"),
		named(unix.AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_NOFOLLOW"),
	}
	// UmountFlags: umount2(2).
	UmountFlags = FlagNames{named(unix.MNT_DETACH, "MNT_DETACH")}
	// CloseRangeFlags: close_range(2).
	CloseRangeFlags = FlagNames{named(unix.CLOSE_RANGE_CLOEXEC, "CLOSE_RANGE_CLOEXEC")}
)
