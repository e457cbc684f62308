package cgroup

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// Sweep removes what killed launchers of this user left in the folders of facts
// that we may write: cgroups with a name of ours, of our uid, whose lock nobody
// holds (so the owner is dead), without processes. Whatever is otherwise stays.
// It gives the folders that it removed.
func Sweep(f *Facts) (removed []string, err error) {
	var errs []error
	seen := map[string]bool{}
	for _, h := range f.Hierarchies {
		for _, chain := range [][]Folder{h.Chain, h.Named} {
			for _, folder := range chain {
				if !folder.Mkdir || seen[folder.Path] {
					continue
				}
				seen[folder.Path] = true
				list, err := sweep(folder.Path, f.UID)
				removed, errs = append(removed, list...), append(errs, err)
			}
		}
	}
	return removed, errors.Join(errs...)
}

func sweep(parent string, uid int) (removed []string, err error) {
	var errs []error
	for _, folder := range children(parent) {
		var st unix.Stat_t
		if !ours(path.Base(folder)) || unix.Lstat(folder, &st) != nil || int(st.Uid) != uid {
			continue
		}
		gone, err := sweepOne(folder)
		if gone {
			removed = append(removed, folder)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// sweepOne holds the lock while it removes the folder, so that two sweeps don't
// meet. A process in it means that the container ends just now, or that somebody
// put a process there: it is left alone either way.
func sweepOne(folder string) (gone bool, err error) {
	fd, err := lockFolder(folder)
	if err != nil {
		return false, nil // it is alive, or was removed meanwhile
	}
	defer unix.Close(fd)
	err = rmdirs(folder)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}
