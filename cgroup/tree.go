package cgroup

import "golang.org/x/sys/unix"

// Root is where control groups are mounted (cgroups(7)).
const Root = "/sys/fs/cgroup"

// Tree is what stands at a machine's Root.
type Tree string

const (
	NoTree  Tree = "none" // nothing is mounted there
	Unified Tree = "v2"   // cgroup v2, the unified hierarchy
	Legacy  Tree = "v1"   // a folder of v1 hierarchies, perhaps a v2 one among them (hybrid)
)

// Look finds out which by statfs(2).
func Look(root string) Tree {
	var st unix.Statfs_t
	switch err := unix.Statfs(root, &st); {
	case err != nil || st.Type == unix.SYSFS_MAGIC:
		return NoTree // sysfs has an empty folder there
	case st.Type == unix.CGROUP2_SUPER_MAGIC:
		return Unified
	}
	return Legacy
}
