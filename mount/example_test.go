package mount_test

import (
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/mount"
)

// A read-only root with a proc of its own in it: every mount is made first and
// attached by its fd, and the root is exchanged at the end.
func ExampleTree() {
	t := mount.NewTree(unix.MS_PRIVATE)
	t.BindRoot("/images/base", true)
	proc := t.Filesystem("proc", "proc", nil, unix.MOUNT_ATTR_NOSUID)
	t.Attach(proc, "/proc", false, true)
	t.Pivot()

	fmt.Print("early, before the id maps are written\n", t.Early, "late\n", t.Late)
	// Output:
	// early, before the id maps are written
	//   1  mount(NULL, "/", NULL, MS_REC|MS_PRIVATE, NULL)
	//   2  root = open_tree(AT_FDCWD, "/images/base", OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_RECURSIVE)
	//   3  mount_setattr(root, "", AT_RECURSIVE|AT_EMPTY_PATH, {attr_set=MOUNT_ATTR_RDONLY}, 32)
	// late
	//   1  move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH)
	//   2  proc.fs = fsopen("proc", FSOPEN_CLOEXEC)
	//   3  fsconfig(proc.fs, FSCONFIG_SET_STRING, "source", "proc", 0)
	//   4  fsconfig(proc.fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)
	//   5  proc = fsmount(proc.fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID)
	//   6  mkdirat(root, "proc", 0755) or EEXIST
	//   7  target1 = openat2(root, "proc", {flags=O_PATH|O_DIRECTORY|O_CLOEXEC, resolve=RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS}, 24)
	//   8  move_mount(proc, "", target1, "", MOVE_MOUNT_F_EMPTY_PATH|MOVE_MOUNT_T_EMPTY_PATH)
	//   9  fchdir(root)
	//  10  pivot_root(".", ".")
	//  11  umount2(".", MNT_DETACH)
	//  12  fchdir(root)
	//  13  openat2(AT_FDCWD, "/..", {flags=O_PATH|O_DIRECTORY|O_CLOEXEC, resolve=RESOLVE_NO_XDEV}, 24)
}
