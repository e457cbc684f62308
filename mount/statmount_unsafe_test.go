package mount

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mountAttrsOf are mnt_attr, mnt_propagation, mnt_peer_group and mnt_master of struct statmount, for the mount at a
// path (statmount(2), Linux 6.8).
func mountAttrsOf(t testing.TB, path string) [4]uint64 {
	t.Helper()
	var stx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID_UNIQUE, &stx); err != nil {
		t.Fatal(err)
	}
	const mntBasic, sizeVer0 = 2, 24
	request := struct {
		size, fd  uint32
		id, param uint64
	}{sizeVer0, 0, stx.Mnt_id, mntBasic}
	var reply [64]uint64
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&reply)), unsafe.Sizeof(reply), 0, 0, 0)
	if errno == unix.ENOSYS {
		missing(t, "statmount(2), Linux 6.8")
	}
	if errno != 0 {
		t.Fatal("statmount:", errno)
	}
	return [4]uint64(reply[8:12])
}
