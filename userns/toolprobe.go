package userns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// searchDirs are the absolute directories of PATH in order, then those where distributions install newuidmap: a
// user's PATH may lack them, or name a copy without privilege first. Relative entries are left out, as a program
// of the working directory isn't what anybody meant.
func searchDirs(path string) []string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(path), "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin") {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// findTool takes the first candidate that can write maps and keeps the problems of those it passed over. If there is
// none, it takes the first one, whose Problem then tells of all.
func findTool(name, root string, dirs []string) Tool {
	var bad []Tool
	seen := map[[2]uint64]bool{}
	for _, dir := range dirs {
		tool, file, err := statTool(name, filepath.Join(root, dir, name))
		if err != nil || seen[file] { // /bin is /usr/bin on most machines
			continue
		}
		seen[file] = true
		if tool.Problem() == "" {
			tool.PassedOver = problems(bad)
			return tool
		}
		bad = append(bad, tool)
	}
	if len(bad) == 0 {
		return Tool{Name: name, Searched: dirs}
	}
	bad[0].Others = problems(bad[1:])
	return bad[0]
}

func problems(tools []Tool) []string {
	var texts []string
	for _, tool := range tools {
		texts = append(texts, tool.Problem())
	}
	return texts
}

// statTool looks at one candidate: stat(2), statfs(2), faccessat(2) and, where there is no set-uid root bit,
// getxattr(2). file is its device and inode.
func statTool(name, path string) (tool Tool, file [2]uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Tool{}, file, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Tool{}, file, unix.EACCES
	}
	tool = Tool{Name: name, Found: true, Path: path, UID: st.Uid, Mode: st.Mode & 0o7777}
	tool.NotForUs = unix.Access(path, unix.X_OK) != nil
	if !tool.setUID() {
		tool.FileCaps, tool.FileCapsErr = fileGrants(path, tool.capability())
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err == nil {
		tool.NoSUID = fs.Flags&unix.ST_NOSUID != 0
	}
	return tool, [2]uint64{uint64(st.Dev), st.Ino}, nil
}

// fileGrants reads the extended attribute security.capability (capabilities(7)): whether executing the file gives
// the named capability, and if not, why in a word.
func fileGrants(path, capability string) (granted bool, why string) {
	var data [64]byte
	n, err := unix.Getxattr(path, "security.capability", data[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return false, ""
	case errors.Is(err, unix.EOVERFLOW):
		return false, "its file capabilities belong to another user namespace"
	case err != nil:
		return false, fmt.Sprintf("getxattr security.capability: %v", err)
	}
	return capsGrant(data[:n], capability)
}

// From linux/capability.h; x/sys/unix has the capabilities but not these.
const (
	vfsCapRevisionMask = 0xff000000 // VFS_CAP_REVISION_MASK
	vfsCapRevision3    = 0x03000000 // VFS_CAP_REVISION_3
	vfsCapEffective    = 0x00000001 // VFS_CAP_FLAGS_EFFECTIVE
)

// capsGrant decodes struct vfs_cap_data (linux/capability.h): a little-endian magic word with the revision and the
// effective bit, then permitted and inheritable words. Revision 3 (4.14) ends with the root uid of the namespace that
// it counts in; the kernel shows one that counts in ours as revision 2.
func capsGrant(data []byte, capability string) (granted bool, why string) {
	if len(data) < 12 {
		return false, "its security.capability is of an unknown revision"
	}
	magic, permitted := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	if magic&vfsCapRevisionMask == vfsCapRevision3 && len(data) >= 24 {
		if rootID := binary.LittleEndian.Uint32(data[20:]); rootID != 0 {
			return false, fmt.Sprintf("its file capabilities count only in a namespace whose root is uid %d", rootID)
		}
	}
	if permitted&capabilityBit(capability) == 0 {
		return false, "its file capabilities are others"
	}
	if magic&vfsCapEffective == 0 {
		return false, "its file capability is permitted but not effective"
	}
	return true, ""
}

func capabilityBit(capability string) uint32 {
	if capability == "CAP_SETGID" {
		return 1 << unix.CAP_SETGID
	}
	return 1 << unix.CAP_SETUID
}
