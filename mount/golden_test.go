package mount

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

var update = flag.Bool("update", false, "write testdata anew")

// planned is a tree of the golden tests: what it was made by, and the slots
// that the host lane fills for it.
type planned struct {
	name   string
	inputs []string
	make   func(t *Tree)
}

// goldenTrees has every kind of root and of mount once.
func goldenTrees() []planned {
	two := []string{"/images/app", "/images/base"}
	odd := []string{`/images/a:b`, `/images/c,d`, `/images/e\f`}
	return []planned{
		{"overlay", nil, func(t *Tree) { t.OverlayRoot(Overlay{Lower: []string{"/images/base"}, PerLayer: true}) }},
		{"overlay-upper", nil, func(t *Tree) {
			t.OverlayRoot(Overlay{Lower: two, Upper: "/home/u/up", Work: "/home/u/up.work", PerLayer: true})
		}},
		{"overlay-volatile", nil, func(t *Tree) {
			t.OverlayRoot(Overlay{Lower: two, Upper: "/home/u/s/upper", Work: "/home/u/s/work", Volatile: true, PerLayer: true})
		}},
		{"overlay-odd", nil, func(t *Tree) { t.OverlayRoot(Overlay{Lower: odd, PerLayer: true}) }},
		{"overlay-inherited", []string{"root"}, func(t *Tree) {
			t.OverlayRoot(Overlay{Inherited: "root", Lower: two[1:], PerLayer: true})
		}},
		{"overlay-before-6.7", nil, func(t *Tree) { t.OverlayRoot(Overlay{Lower: odd}) }},
		{"overlay-inherited-before-6.7", []string{"root"}, func(t *Tree) { t.OverlayRoot(Overlay{Inherited: "root", Lower: two[1:]}) }},
		{"overlay-upper-before-6.7", nil, func(t *Tree) {
			t.OverlayRoot(Overlay{Lower: two, Upper: "/home/u/up,1", Work: "/home/u/up,1.work"})
		}},
		{"bind-root", nil, func(t *Tree) { t.BindRoot("/images/base", true) }},
		{"inherited-root", []string{"root"}, func(t *Tree) { t.InheritRoot("root", true) }},
		{"host-view", nil, func(t *Tree) { hostView(t, true) }},
		{"host-view-before-6.7", nil, func(t *Tree) { hostView(t, false) }},
		{"proc-sys-dev", nil, func(t *Tree) { t.BindRoot("/images/base", false); kernelMounts(t) }},
		{"bind-inherited", []string{"idmap1"}, func(t *Tree) {
			t.BindRoot("/images/base", false)
			t.Bind(Bind{Source: "/srv/data", Dest: "/data", Inherited: "idmap1", RecSet: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_SHARED})
		}},
		{"binds", nil, func(t *Tree) { t.BindRoot("/images/base", false); binds(t) }},
	}
}

// hostView is what a view of this machine is made of.
func hostView(t *Tree, perLayer bool) {
	t.TmpfsRoot()
	t.Link("usr/bin", "bin")
	t.Bind(Bind{Source: "/usr", Dest: "/usr", Recursive: true, RecSet: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV})
	for _, dir := range []string{"/etc", "/var"} {
		t.OverlayAt(Overlay{Lower: []string{dir}, PerLayer: perLayer}, dir)
	}
	t.Folder("tmp", 0o1777)
}

// kernelMounts are /proc, /sys and /dev with masks of all kinds.
func kernelMounts(t *Tree) {
	const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	t.Attach(t.Filesystem("proc", t.Name("/proc"), nil, quiet), "/proc", false, true)
	t.Attach(t.Filesystem("sysfs", t.Name("/sys"), nil, quiet|unix.MOUNT_ATTR_RDONLY), "/sys", false, true)
	t.Attach(t.Filesystem("tmpfs", t.Name("/dev"), []string{"mode=755", "size=64k"}, unix.MOUNT_ATTR_NOSUID), "/dev", false, true)
	t.Attach(t.Filesystem("devpts", t.Name("/dev/pts"), []string{"newinstance", "ptmxmode=0666"}, quiet), "/dev/pts", false, true)
	t.BindDevices([]string{"null", "tty"}, "/dev")
	t.Seal("/dev")
	t.Mask("/proc/kcore", File)
	t.Mask("/proc/keys", File)
	t.Mask("/sys/firmware", Directory)
	t.Mask("/proc/scsi", Directory)
	t.Mask("/proc/acpi", Absent)
	t.Mask("/var/secret", Directory)
	t.ReadonlyPath("/proc/sys", Directory)
	t.ReadonlyPath("/proc/sysrq-trigger", File)
	t.ReadonlyPath("/proc/irq", Absent)
	t.ReadonlyRoot()
}

func binds(t *Tree) {
	t.Bind(Bind{Source: "/srv/data", Dest: "/data", Recursive: true, RecSet: unix.MOUNT_ATTR_RDONLY})
	t.Bind(Bind{Source: "/etc/resolv.conf", Dest: "/etc/resolv.conf", File: true, Set: unix.MOUNT_ATTR_RDONLY})
	t.Bind(Bind{Source: "/media", Dest: "/media", Recursive: true, Propagation: unix.MS_SLAVE | unix.MS_REC})
	t.Bind(Bind{Source: "/srv/a/b", Dest: "/very/deep/below", Clear: unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE})
}

func (p planned) tree() *Tree {
	t := NewTree(unix.MS_PRIVATE)
	p.make(t)
	t.Pivot()
	return t
}

// program is the two lists as the child executes them, one behind the other.
func (t *Tree) program() nsexec.Program {
	return append(append(nsexec.Program{}, t.Early...), t.Late...)
}

func TestGolden(t *testing.T) {
	for _, p := range goldenTrees() {
		t.Run(p.name, func(t *testing.T) {
			tree := p.tree()
			golden(t, "testdata/"+p.name+".txt", "early\n"+tree.Early.String()+"late\n"+tree.Late.String())
			checkTree(t, tree, p.inputs)
		})
	}
}

// The same calls give the same text: nothing depends on the order of a map.
func TestSameTextAlways(t *testing.T) {
	for _, p := range goldenTrees() {
		first := p.tree().program().String()
		for range 20 {
			if again := p.tree().program().String(); again != first {
				t.Fatalf("%s: first\n%s\nthen\n%s", p.name, first, again)
			}
		}
	}
}

// Everyone who reads explain's output finds a phrase and a manual page.
func TestEveryStepIsNamed(t *testing.T) {
	for _, p := range goldenTrees() {
		for i, s := range p.tree().program() {
			if s.Name == "" || s.ManPage() == "" {
				t.Errorf("%s: step %d: %q, %q: %s", p.name, i+1, s.Name, s.ManPage(), s)
			}
			if len(s.Policy.Allowed) > 0 && s.Policy.Because == "" {
				t.Errorf("%s: step %d: %s: errors are allowed for no reason", p.name, i+1, s)
			}
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal([]byte(got), want) {
		t.Errorf("%s differs; see go test -update\n%s", path, got)
	}
}
