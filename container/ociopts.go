package container

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// MountOptions is what the option strings of an OCI mount ask of the kernel.
// The attributes are MOUNT_ATTR_* for mount_setattr(2), Linux 5.12: first
// RecSet and RecClear with AT_RECURSIVE, then Set and Clear on the mount alone,
// so that "rro,rw" leaves the top writable. A choice of access times always
// clears the whole field MOUNT_ATTR__ATIME, as the kernel demands.
type MountOptions struct {
	Set, Clear       uint64 // MOUNT_ATTR_* of the mount
	RecSet, RecClear uint64 // MOUNT_ATTR_* of the mount and all below (rro, rnosuid, …)

	Bind        bool   // bind or rbind: the mount has no file-system options
	Recursive   bool   // rbind
	IDMap       bool   // idmap or ridmap: MOUNT_ATTR_IDMAP
	RecIDMap    bool   // ridmap: for all below too
	Propagation uint64 // MS_SHARED, MS_PRIVATE, MS_SLAVE or MS_UNBINDABLE, with MS_REC; 0 if not named

	// Data holds the options of the file system ("size=64k", "mode=755") and
	// of its superblock (sync, dirsync, lazytime): one fsconfig(2) each, or
	// joined by commas the data of mount(2). The kernel takes both kinds
	// either way and refuses those it doesn't know.
	Data []string
}

// MountOptionError refuses one option string.
type MountOptionError struct {
	Index  int    // its place in the list, from 0
	Option string // as written
	What   string // why it can't be had
	Remedy string // what to do about it
}

func (e *MountOptionError) Error() string {
	return fmt.Sprintf("mount option %q: %s\n  %s", e.Option, e.What, e.Remedy)
}

// ParseMountOptions reads the option strings of an OCI mount: config.md,
// "Linux mount options", and mount(8). Of two that contradict, the later wins.
// An option that isn't known belongs to the file system; on a bind mount,
// where the kernel would drop it, it is refused. Every error is a *MountOptionError.
func ParseMountOptions(opts []string) (MountOptions, error) {
	var p optionParser
	for i, opt := range opts {
		if what, remedy := refusedOption(opt); what != "" {
			return MountOptions{}, &MountOptionError{Index: i, Option: opt, What: what, Remedy: remedy}
		}
		p.option(i, opt)
	}
	if p.bind && len(p.data) > 0 {
		first := p.data[0]
		return MountOptions{}, &MountOptionError{Index: first.index, Option: first.text,
			What: "a bind mount shows a file system that is mounted already, and can't change its options", Remedy: "remove it"}
	}
	return p.options(), nil
}

// asksBind: "A mount is a bind mount if it has either bind or rbind in the options."
func asksBind(opts []string) bool {
	for _, opt := range opts {
		if opt == "bind" || opt == "rbind" {
			return true
		}
	}
	return false
}

// optionParser holds what the options read so far ask for.
type optionParser struct {
	top, below      mountAttrs
	bind, recursive bool
	idmap, ridmap   bool
	propagation     uint64
	data            []dataOption
}

type dataOption struct {
	index int
	text  string
}

func (p *optionParser) options() MountOptions {
	o := MountOptions{Set: p.top.set, Clear: p.top.clear, RecSet: p.below.set, RecClear: p.below.clear,
		Bind: p.bind, Recursive: p.recursive, IDMap: p.idmap, RecIDMap: p.ridmap, Propagation: p.propagation}
	for _, d := range p.data {
		o.Data = append(o.Data, d.text)
	}
	return o
}

func (p *optionParser) option(index int, opt string) {
	if flag := propagationFlag(opt); flag != 0 {
		p.propagation = flag
		return
	}
	if p.attribute(opt) {
		return
	}
	switch opt {
	case "bind", "rbind":
		p.bind, p.recursive = true, opt == "rbind"
	case "idmap", "ridmap":
		p.idmap, p.ridmap = true, opt == "ridmap"
	case "async":
		p.withdraw("sync")
	case "nolazytime":
		p.withdraw("lazytime")
	case "", "defaults", "loud", "nomand", "noiversion": // what every mount starts with
	case "sync", "dirsync", "lazytime":
		p.withdraw(opt)
		p.data = append(p.data, dataOption{index, opt})
	default:
		p.data = append(p.data, dataOption{index, opt})
	}
}

// attribute takes a per-mount attribute, or with an r before it the recursive
// one, which overrules what was said about the top mount before.
func (p *optionParser) attribute(opt string) bool {
	if p.top.change(opt) != 0 {
		return true
	}
	name, recursive := strings.CutPrefix(opt, "r")
	if !recursive {
		return false
	}
	bits := p.below.change(name)
	p.top.forget(bits)
	return bits != 0
}

func (p *optionParser) withdraw(opt string) {
	kept := p.data[:0]
	for _, d := range p.data {
		if d.text != opt {
			kept = append(kept, d)
		}
	}
	p.data = kept
}

func propagationFlag(opt string) uint64 {
	switch opt {
	case "private":
		return unix.MS_PRIVATE
	case "rprivate":
		return unix.MS_PRIVATE | unix.MS_REC
	case "slave":
		return unix.MS_SLAVE
	case "rslave":
		return unix.MS_SLAVE | unix.MS_REC
	case "shared":
		return unix.MS_SHARED
	case "rshared":
		return unix.MS_SHARED | unix.MS_REC
	case "unbindable":
		return unix.MS_UNBINDABLE
	case "runbindable":
		return unix.MS_UNBINDABLE | unix.MS_REC
	}
	return 0
}

// refusedOption names the options that the kernel would ignore or that need
// more than the kernel's help.
func refusedOption(opt string) (what, remedy string) {
	name, _, _ := strings.Cut(opt, "=")
	switch name {
	case "remount":
		return "an OCI mount is new, there is nothing to remount", "remove it; ro and the like take effect without it"
	case "mand":
		return "Linux 5.15 removed mandatory locking", "remove it"
	case "iversion":
		return "no file system that wolffia mounts counts inode versions on demand", "remove it"
	case "silent":
		return "the mount API of Linux 5.2 has no such flag (SB_SILENT)", "remove it; it only hides kernel messages"
	case "idmap", "ridmap":
		if opt != name {
			return "a map inside an option is an invention of one runtime", "write idmap alone, and the map as uidMappings and gidMappings of the mount"
		}
	case "tmpcopyup":
		return "copying the folder below into a tmpfs is not built yet", "remove it, and copy in the container's command"
	case "copy-symlink", "src-nofollow", "dest-nofollow":
		return "mounting over symlinks is not built yet", "remove it, and name the file that the symlink leads to"
	}
	if strings.ContainsAny(opt, ",\x00") {
		return "a comma or a NUL byte inside one option", "write each option as a string of its own"
	}
	return "", ""
}
