package container

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var errEmpty = errors.New("the folder is empty")

// checkRoot finds the plain faults of a root before anything is started.
func checkRoot(r Root) error {
	what := "the root (--rootfs)"
	if r.Kind == RootDirect {
		what = "the bundle's root (root.path)"
	}
	if err := checkFolder(what, r.Path, true); err != nil {
		return err
	}
	for _, l := range r.Lower {
		if err := checkFolder("the layer (--lower)", l, false); err != nil {
			return err
		}
	}
	if r.Upper != "" {
		return checkFolder("the upper layer (--upper)", r.Upper, false)
	}
	return nil
}

// checkFolder opens a folder and, where it must not be empty, reads one name.
func checkFolder(what, path string, filled bool) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT:
		return &InputError{what, path, err, "make it: mkdir -p " + path + filling(filled, ", and unpack an image's files there")}
	case unix.ENOTDIR:
		return &InputError{what, path, err, "it has to be a folder" + filling(filled, "; an archive must be unpacked first")}
	case unix.EACCES:
		return &InputError{what, path, err, "this user can't read it: chmod or chown it, or name a folder of your own"}
	case unix.EMFILE:
		return &InputError{what, path, err, tooFewFiles(nil)}
	default:
		return &InputError{what, path, err, ""}
	}
	defer unix.Close(fd)
	if !filled {
		return nil
	}
	var buf [512]byte
	n, err := unix.ReadDirent(fd, buf[:])
	if err != nil {
		return &InputError{what, path, err, ""}
	}
	if _, count, _ := unix.ParseDirent(buf[:n], 1, nil); count == 0 {
		return &InputError{what, path, errEmpty, "unpack an image's files there, or leave --rootfs out for a view of this machine"}
	}
	return nil
}

// filling is said only of a folder that has to hold something.
func filling(filled bool, text string) string {
	if filled {
		return text
	}
	return ""
}

// probeHostView lists what a view of this machine is made of: the names in /,
// with the links as they are, and the mounts below the folders that become
// overlays.
func (f *Facts) probeHostView() {
	for _, name := range append([]string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}, hostFolders()...) {
		target, err := os.Readlink("/" + name)
		if err != nil {
			var st unix.Stat_t
			if unix.Stat("/"+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
		}
		f.TopDirs = append(f.TopDirs, TopEntry{Name: name, Target: target})
	}
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (strings.HasPrefix(fields[4], "/etc/") || strings.HasPrefix(fields[4], "/var/")) {
			f.Under = append(f.Under, unescapeMount(fields[4]))
		}
	}
	for _, dir := range []string{"/etc", "/var"} {
		if len(f.mountsBelow(dir)) > 0 {
			f.listEntries(dir)
		}
	}
}

func (f *Facts) mountsBelow(dir string) []string {
	var below []string
	for _, m := range f.Under {
		if strings.HasPrefix(m, dir+"/") {
			below = append(below, m)
		}
	}
	return below
}

// listEntries lists a folder that can't be a layer of an overlay. One that
// can't be read stays without entries.
func (f *Facts) listEntries(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	if f.Entries == nil {
		f.Entries = map[string][]TopEntry{}
	}
	for _, e := range entries {
		entry := TopEntry{Name: e.Name(), File: !e.IsDir()}
		if e.Type()&os.ModeSymlink != 0 {
			entry.Target, _ = os.Readlink(dir + "/" + e.Name())
		}
		f.Entries[dir] = append(f.Entries[dir], entry)
	}
}

// hostFolders are shown read-only when this machine has them. What isn't here
// (/home, /mnt, /media, /boot, /root) is not shown.
func hostFolders() []string {
	return []string{"usr", "opt", "srv", "nix", "gnu", "snap"}
}

// unescapeMount undoes mountinfo's octal escapes (proc_pid_mountinfo(5)).
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
