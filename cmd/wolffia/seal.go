package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/userns"
)

// Until execve, /proc/self/exe of the child is this binary, and a program whose
// #! line leads there runs it inside the container. A container that may write
// the file could then change what the host's user runs next (CVE-2019-5736).
//
// So a binary that the container's ids may write is not used: it is copied into
// a sealed memfd, which nobody can write, and that is executed instead, before
// anything else happens. A binary owned by root needs none of this in an
// ordinary user's hands, and costs nothing.

const sealedName = "wolffia-sealed"

// sealExe executes a sealed copy of this program where one is needed. It
// returns when none is, or when this already is one.
func sealExe(mapsRoot bool) error {
	if os.Getuid() == 0 && !mapsRoot {
		return nil // the container's ids are not root's
	}
	if !writable("/proc/self/exe", os.Getuid()) || isSealed() {
		return nil
	}
	fd, err := sealedCopy("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("a sealed copy of this binary can't be made: %w\n  it is needed as this user may write %s: install it owned by root, or allow memfd_create", err, ownPath())
	}
	// The copy has no path, so its first word tells the original's: an AppArmor profile is for that one.
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), append([]string{ownPath()}, os.Args[1:]...), os.Environ())
	return fmt.Errorf("executing the sealed copy of this binary: %w\n  is vm.memfd_noexec=2 set? Then install %s owned by root, so that no copy is needed", err, ownPath())
}

// writable tells whether a container of this user could come to write a file: by
// its mode, or as its owner, who can change the mode first (chmod(2)). An owner
// that is neither we nor root may be one of our subordinate ids, whose files the
// container's root owns. What has no id here (65534) has none inside either.
func writable(path string, uid int) bool {
	// access(2) looks at the file's mode and owner; open(2) would give ETXTBSY.
	if unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, 0) == nil {
		return true
	}
	const overflow = 65534
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err == unix.ENOENT {
		return false // without /proc nothing can be started, and probing will say so
	}
	return err != nil || int(st.Uid) == uid || st.Uid != 0 && st.Uid != overflow
}

// mapsRoot tells whether a container started by root may get root's own id.
func (r *request) mapsRoot() bool {
	return r.opts.Map.Mode != userns.Auto || len(r.opts.Map.UID) > 0 || r.spec.Linux != nil && len(r.spec.Linux.UIDMappings) > 0
}

func ownPath() string {
	path, _ := os.Readlink("/proc/self/exe")
	return path
}

// isSealed: the name tells, and the seals prove it.
func isSealed() bool {
	if !strings.HasPrefix(ownPath(), "/memfd:"+sealedName) {
		return false
	}
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_WRITE != 0
}

// sealedCopy copies a file into a memfd that can't be changed any more
// (memfd_create(2), F_ADD_SEALS in fcntl(2)).
func sealedCopy(path string) (int, error) {
	from, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(from)
	fd, err := unix.MemfdCreate(sealedName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // MFD_EXEC came with Linux 6.3
		fd, err = unix.MemfdCreate(sealedName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return -1, err
	}
	for {
		n, err := unix.Sendfile(fd, from, nil, 1<<30)
		if err != nil {
			return -1, err
		}
		if n == 0 {
			break
		}
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return fd, err
}
