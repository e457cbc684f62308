package mount

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// origin tells how a program got the fd in a slot, which is what decides
// whether a path may be looked up below it.
type origin int

const (
	unknown   origin = iota
	ours             // a file system that the program made: nobody else wrote a link there
	cloned           // a mount of the host
	layer            // a folder of the host
	inTheRoot        // resolved below the root, no link leading out of it
	unlinked         // resolved by no link at all
	inherited        // from the host lane
)

// walk follows a program and checks each step against the rules of doc.go.
type walk struct {
	slots    map[string]origin
	cwd      string   // slot of the current directory, "" at first
	over     []string // what lies over the old "/", from below
	root     string   // slot of the new root, once it is attached
	pivoted  bool
	detached int
	proven   bool
	faults   []string
}

// checkTree checks what holds for every tree.
func checkTree(t *testing.T, tree *Tree, inputs []string) {
	t.Helper()
	program := tree.program()
	if err := program.Validate(inputs...); err != nil {
		t.Error(err)
	}
	w := &walk{slots: map[string]origin{}}
	for _, name := range inputs {
		w.slots[name] = inherited
	}
	for i, s := range program {
		if slices.Contains(w.over, tree.root) {
			w.root = tree.root
		}
		if fault := w.step(s); fault != "" {
			w.faults = append(w.faults, fmt.Sprintf("step %d: %s: %s", i+1, s, fault))
		}
	}
	if !w.pivoted || w.detached != len(w.over) || !w.proven {
		w.faults = append(w.faults, fmt.Sprintf("pivot_root %v, %d mounts detached of %d (over \"/\" lie %v, and \"/\" itself), proof %v",
			w.pivoted, w.detached, len(w.over), w.over, w.proven))
	}
	if len(w.faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(w.faults, "\n"), program)
	}
}

func (w *walk) step(s nsexec.Step) (fault string) {
	if w.proven {
		return "a step behind the proof that the old root is gone"
	}
	if w.pivoted {
		return w.behindPivot(s)
	}
	switch s.Call {
	case unix.SYS_FSMOUNT:
		w.slots[s.Save] = ours
	case unix.SYS_OPENAT:
		w.slots[s.Save] = layer
	case unix.SYS_OPEN_TREE:
		return w.openTree(s)
	case unix.SYS_OPENAT2:
		return w.openat2(s)
	case unix.SYS_MOVE_MOUNT:
		return w.moveMount(s)
	case unix.SYS_MKDIRAT, unix.SYS_MKNODAT:
		return w.singleName(s.Args[0], s.Args[1].Text)
	case unix.SYS_SYMLINKAT:
		return w.singleName(s.Args[1], s.Args[2].Text)
	case unix.SYS_FCHDIR:
		w.cwd = s.Args[0].Text
	case unix.SYS_MOUNT:
		return w.mount(s)
	case unix.SYS_UMOUNT2:
		return "nothing is unmounted before pivot_root"
	case unix.SYS_PIVOT_ROOT:
		w.pivoted = true
		if w.root == "" || w.cwd != w.root || s.Args[0].Text != "." || s.Args[1].Text != "." {
			return fmt.Sprintf("pivot_root in %q, and the root is %q", w.cwd, w.root)
		}
	}
	return ""
}

// behindPivot: as many umount2 as mounts lie on the new root, then the proof.
func (w *walk) behindPivot(s nsexec.Step) string {
	switch {
	case s.Call == unix.SYS_UMOUNT2 && s.Args[0].Text == "." && s.Args[1].Value == unix.MNT_DETACH && w.cwd == w.root:
		w.detached++
	case s.Call == unix.SYS_FCHDIR && s.Args[0].Text == w.root:
	case s.Call == unix.SYS_OPENAT2 && s.Args[1].Text == "/.." && how(s).resolve == unix.RESOLVE_NO_XDEV && s.Policy.Accepts(3) && !s.Policy.Accepts(-int64(unix.EXDEV)):
		w.proven = true
	default:
		return "not of those that may follow pivot_root"
	}
	return ""
}

// openTree: a host path is cloned before anything lies over "/"; afterwards
// only /dev/null, which resolves below the old root as long as that is ours.
func (w *walk) openTree(s nsexec.Step) string {
	w.slots[s.Save] = cloned
	if s.Args[0].Kind == nsexec.KindSlot {
		if s.Args[1].Text != "" {
			return "a path below an fd is cloned"
		}
		if from := w.slots[s.Args[0].Text]; from == ours {
			w.slots[s.Save] = ours
		}
		return ""
	}
	if w.cwd != "" && !strings.HasPrefix(s.Args[1].Text, "/") {
		w.slots[s.Save] = ours
		return w.inScratch(s.Args[1].Text)
	}
	if w.root != "" && s.Args[1].Text != "/dev/null" {
		return "a host path is cloned late"
	}
	return ""
}

func (w *walk) openat2(s nsexec.Step) string {
	h := how(s)
	base := w.slots[s.Args[0].Text]
	switch {
	case s.Args[0].Kind != nsexec.KindSlot:
		return "looked up from AT_FDCWD"
	case h.flags&unix.O_PATH == 0:
		return "opened, not only found"
	case h.resolve == unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS:
		w.slots[s.Save] = inTheRoot
		if s.Args[0].Text != w.root {
			return "RESOLVE_IN_ROOT has to start at the root: a link would resolve below another folder"
		}
	case h.resolve == unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS:
		w.slots[s.Save] = unlinked
		if s.Args[0].Text != w.root && base != ours {
			return "a mask is resolved below something that is neither the root nor ours"
		}
	default:
		return "neither of the two ways to resolve"
	}
	if strings.HasPrefix(s.Args[1].Text, "/") || slices.Contains(strings.Split(s.Args[1].Text, "/"), "..") {
		return "the path is not relative and clean"
	}
	return ""
}

// moveMount: by path only onto "/"; else onto an fd or onto a single name.
func (w *walk) moveMount(s nsexec.Step) string {
	mount, to, name := s.Args[0].Text, s.Args[2], s.Args[3].Text
	if s.Args[0].Kind != nsexec.KindSlot || s.Args[1].Text != "" || s.Args[4].Value&(unix.MOVE_MOUNT_T_SYMLINKS|unix.MOVE_MOUNT_T_AUTOMOUNTS) != 0 {
		return "not a mount by its fd, or links are followed"
	}
	switch {
	case to.Kind != nsexec.KindSlot:
		w.over = append(w.over, mount)
		if name != "/" {
			return "attached by a path"
		}
	case name != "":
		return w.singleName(to, name)
	case slices.Contains(w.over, to.Text):
		w.over = append(w.over, mount)
	case w.slots[to.Text] == layer && mount != "scratch":
		return "attached over a folder of the host"
	case w.slots[to.Text] == unknown, w.slots[to.Text] == cloned:
		return "the target was not resolved below the root"
	}
	return ""
}

// singleName: a name that is looked up without openat2 is one component, in the
// root, in something resolved below it, or in a file system of ours.
func (w *walk) singleName(dir nsexec.Arg, name string) string {
	from := w.slots[dir.Text]
	switch {
	case dir.Kind != nsexec.KindSlot || dir.Text != w.root && from != ours && from != inTheRoot && from != unlinked:
		return "made in a folder that was not resolved below the root"
	case name == "" || name == "." || name == ".." || strings.Contains(name, "/"):
		return "not a single name"
	}
	return ""
}

// mount: mount(2) only changes propagation, or mounts an overlay before 6.7 in
// the scratch tmpfs.
func (w *walk) mount(s nsexec.Step) string {
	if s.Args[1].Text == "/" && s.Args[3].Value&^(unix.MS_PRIVATE|unix.MS_SLAVE|unix.MS_REC) == 0 {
		return ""
	}
	return w.inScratch(s.Args[1].Text)
}

func (w *walk) inScratch(name string) string {
	if w.cwd != "scratch" {
		return "a relative path, and we don't stand in the scratch tmpfs"
	}
	return w.singleName(nsexec.Slot("scratch"), name)
}

// openHow is struct open_how of openat2(2).
type openHow struct{ flags, resolve uint64 }

func how(s nsexec.Step) openHow {
	data := s.Args[2].Memory.Data
	return openHow{binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[16:])}
}

// The rules of doc.go hold for whatever is asked for, in any order.
func TestRandomTrees(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		tree := NewTree([]uint64{unix.MS_PRIVATE, unix.MS_SLAVE}[r.IntN(2)])
		inputs := randomRoot(r, tree)
		for range r.IntN(12) {
			randomMount(r, tree)
		}
		tree.Pivot()
		checkTree(t, tree, inputs)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Devices are made in the folder that was named, whatever lies over it.
func TestDevicesLandWhereTheyBelong(t *testing.T) {
	for _, root := range []func(t *Tree){(*Tree).TmpfsRoot, func(t *Tree) { t.BindRoot("/images/base", false) }} {
		tree := NewTree(unix.MS_PRIVATE)
		root(tree)
		tree.Bind(Bind{Source: "/srv/dev", Dest: "/dev", Recursive: true})
		tree.BindDevices([]string{"null"}, "/dev")
		found := map[string]string{} // slot → path it was resolved by
		for _, s := range tree.Late {
			if s.Call == unix.SYS_OPENAT2 {
				found[s.Save] = s.Args[1].Text
			}
			if s.Call == unix.SYS_MOVE_MOUNT && s.Args[3].Text == "null" && found[s.Args[2].Text] != "dev" {
				t.Errorf("/dev/null lands in %s, found by %q\n%s", s.Args[2].Text, found[s.Args[2].Text], tree.Late)
			}
		}
		tree.Pivot()
		checkTree(t, tree, nil)
	}
}

// somewhere is a destination: nested ones are likely, and repeated ones.
func somewhere(r *rand.Rand) string {
	// Some are called as slots are.
	names := []string{"proc", "sys", "dev", "etc", "a", "b c", "ü,:", "null", "proc.2", "proc.fs", "target3", "mask7", "bind1", "mount2", "scratch", "root"}
	dest := ""
	for range 1 + r.IntN(3) {
		dest += "/" + names[r.IntN(len(names))]
	}
	return dest
}

func randomOverlay(r *rand.Rand) Overlay {
	o := Overlay{Lower: []string{"/l" + somewhere(r)}, PerLayer: r.IntN(2) == 0}
	for range r.IntN(3) {
		o.Lower = append(o.Lower, "/l"+somewhere(r))
	}
	if r.IntN(2) == 0 {
		o.Upper, o.Work, o.Volatile = "/u", "/u.work", r.IntN(2) == 0
	}
	return o
}

func randomRoot(r *rand.Rand, tree *Tree) (inputs []string) {
	switch r.IntN(5) {
	case 0:
		tree.BindRoot("/images/base", r.IntN(2) == 0)
	case 1:
		tree.InheritRoot("root", r.IntN(2) == 0)
		return []string{"root"}
	case 2:
		o := randomOverlay(r)
		o.Inherited = "root"
		o.Lower = o.Lower[r.IntN(2):]
		tree.OverlayRoot(o)
		return []string{"root"}
	case 3:
		tree.TmpfsRoot()
	default:
		tree.OverlayRoot(randomOverlay(r))
	}
	return nil
}

func randomMount(r *rand.Rand, tree *Tree) {
	dest := somewhere(r)
	attrs := r.Uint64() & (unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	kind := []FileType{Absent, Directory, File}[r.IntN(3)]
	switch r.IntN(8) {
	case 0, 1:
		fstype := []string{"proc", "sysfs", "tmpfs"}[r.IntN(3)]
		tree.Attach(tree.Filesystem(fstype, tree.Name(dest), []string{"mode=755"}, attrs), dest, false, true)
	case 2, 3:
		tree.Bind(Bind{Source: "/s" + dest, Dest: dest, File: r.IntN(2) == 0, Recursive: r.IntN(2) == 0, RecSet: attrs,
			Propagation: []uint64{0, unix.MS_PRIVATE, unix.MS_SLAVE | unix.MS_REC}[r.IntN(3)]})
	case 4:
		tree.OverlayAt(randomOverlay(r), dest)
	case 5:
		tree.Mask(dest, kind)
	case 6:
		tree.ReadonlyPath(dest, kind)
	case 7:
		tree.BindDevices(Devices[:1+r.IntN(len(Devices))], dest)
		tree.Seal(dest)
	}
}
