package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/mount"
	"wolffia.dev/userns"
)

// idmapFiles are the files of a folder that shall have other owners, as in containerd/containerd#4734.
var idmapFiles = []int{1000, 20000}

// BenchmarkIDMapMount gives a folder's files other owners. idmap is the whole of it: a user namespace with the map, the
// idmapped clone, and its end; namespace is the same with one that is there already. chown changes every file, once an
// op. The third way that people know isn't built: the row says so.
func BenchmarkIDMapMount(b *testing.B) {
	if os.Geteuid() != 0 {
		skip(b, "idmapped mounts of the host's file systems need root")
	}
	for _, files := range idmapFiles {
		dir := manyFiles(b, files)
		b.Run(fmt.Sprintf("idmap/files=%d", files), func(b *testing.B) { benchIDMap(b, dir, nil) })
		b.Run(fmt.Sprintf("namespace/files=%d", files), func(b *testing.B) { benchIDMap(b, dir, idmapNamespace(b)) })
		b.Run(fmt.Sprintf("chown/files=%d", files), func(b *testing.B) { benchChown(b, dir) })
		b.Run(fmt.Sprintf("user-xattr/files=%d", files), func(b *testing.B) {
			skip(b, "owners in user xattrs need fuse-overlayfs, and no part of wolffia uses it")
		})
	}
}

// manyFiles makes a folder with so many files in folders of a thousand.
func manyFiles(b *testing.B, files int) string {
	b.Helper()
	dir := b.TempDir()
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprint(i/1000))
		if i%1000 == 0 {
			must(b, os.Mkdir(sub, 0o755))
		}
		must(b, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), nil, 0o644))
	}
	return dir
}

const idmapBase = 500000

func idmapNamespace(b *testing.B) *os.File {
	b.Helper()
	m := userns.IDMap{{Inside: 0, Outside: idmapBase, Length: 65536}}
	ns, err := userns.Open(b.Context(), m, m)
	must(b, err)
	b.Cleanup(func() { ns.Close() })
	return ns
}

func benchIDMap(b *testing.B, dir string, ns *os.File) {
	m := userns.IDMap{{Inside: 0, Outside: idmapBase, Length: 65536}}
	opener, err := userns.NewOpener()
	must(b, err)
	defer opener.Close()
	maps, err := opener.Prepare(m, m)
	must(b, err)
	for b.Loop() {
		fd := -1
		if ns != nil {
			fd = int(ns.Fd())
		} else if fd, err = opener.OpenRaw(b.Context(), maps); err != nil {
			b.Fatal(err)
		}
		tree, err := mount.IDMapped(dir, fd, false)
		must(b, err)
		must(b, tree.Close())
		if ns == nil {
			must(b, unix.Close(fd))
		}
	}
	b.StopTimer()
	checkIDMapped(b, dir)
}

// checkIDMapped looks through such a mount, attached in a mount namespace of a thread of its own.
func checkIDMapped(b *testing.B, dir string) {
	ns, done := idmapNamespace(b), make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		done <- lookIDMapped(dir, int(ns.Fd()))
	}()
	must(b, <-done)
}

func lookIDMapped(dir string, ns int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	tree, err := mount.IDMapped(dir, ns, false)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return owners(dir, idmapBase)
}

func benchChown(b *testing.B, dir string) {
	to := idmapBase
	for b.Loop() {
		must(b, chownAll(dir, to))
		to = idmapBase - to
	}
	b.StopTimer()
	must(b, owners(dir, idmapBase-to))
	must(b, chownAll(dir, 0))
}

func chownAll(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}

// owners checks that all files belong to an id.
func owners(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err == nil && (st.Uid != uint32(id) || st.Gid != uint32(id)) {
			err = fmt.Errorf("%s belongs to %d:%d, want %d", path, st.Uid, st.Gid, id)
		}
		return err
	})
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
