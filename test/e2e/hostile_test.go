package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A root that someone else wrote: its links lead mounts and mount points nowhere but into itself.
// projectatomic/runc#54 (CVE-2021-30465), moby/moby#52648
func TestHostileRoot(t *testing.T) {
	out := t.TempDir() + "/out"
	src := t.TempDir()
	write(t, src+"/file", "volume", 0o644)
	os.Mkdir(out, 0o755)
	for _, link := range []struct{ name, to string }{
		{"proc", out}, {"proc", "/"}, {"proc", "../../../../../.." + out}, {"proc", "dev"},
		{"dev", out}, {"dev", "/proc/self/root" + out}, {"sys", out}, {"sys", "/proc"},
		{"mnt", out}, {"mnt", "/proc/self/root" + out}, {"mnt", "/proc/self/cwd"}, {"mnt", "../.." + out}, {"mnt", "/"}, {"mnt", "mnt"},
		{"mnt/a", out}, {"mnt/a", "/proc/1/root" + out}, {"mnt/a/b", out}, {"mnt/a/b", "/nowhere"}, {"mnt/a/b", out + "/made"},
	} {
		root := busybox(t)
		os.RemoveAll(root + "/" + link.name)
		os.MkdirAll(filepath.Dir(root+"/"+link.name), 0o755)
		symlink(t, link.to, root+"/"+link.name)
		os.MkdirAll(root+out, 0o755) // where the link leads, in the root
		for kind, args := range map[string][]string{
			"overlay":   {"--rootfs", root},
			"read-only": {"--rootfs", root, "--read-only"},
			"bundle":    {"--bundle", bundle(t, func(spec map[string]any) { spec["root"] = map[string]any{"path": root} })},
		} {
			args = append(args, "-v", src+":/mnt/a/b", "-v", src+"/file:/mnt/a/c/file", "--", "/bin/sh", "-c", "cat /mnt/a/b/file; test ! -e /proc/self || read pid rest </proc/self/stat; echo ${pid-1}; : >/dev/null")
			r := run(t, args...)
			switch {
			case r.code == 125 && strings.HasPrefix(r.err, "wolffia: "):
			case r.code == 0 && r.err == "" && strings.HasSuffix(r.out, "1\n"):
			default:
				t.Errorf("/%s -> %s, %s: %+v", link.name, link.to, kind, r)
			}
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Fatalf("/%s -> %s: made outside of the root: %v", link.name, link.to, left)
		}
	}
}

// containerd/nerdctl#4582 (CVE-2025-31133): masks come from the host's null device, whatever the root has in its place.
func TestHostileNull(t *testing.T) {
	out := write(t, t.TempDir()+"/file", "outside", 0o644)
	for name, plant := range map[string]func(dev string){
		"a link":         func(dev string) { symlink(t, out, dev+"/null") },
		"a regular file": func(dev string) { write(t, dev+"/null", "planted", 0o666) },
		"a folder":       func(dev string) { os.Mkdir(dev+"/null", 0o777) },
		"a link to proc": func(dev string) { symlink(t, "/proc/sysrq-trigger", dev+"/null") },
	} {
		root := busybox(t)
		write(t, root+"/etc/secret", "secret", 0o644)
		plant(root + "/dev")
		b := bundle(t, func(spec map[string]any) {
			spec["root"] = map[string]any{"path": root}
			var kept []any
			for _, m := range spec["mounts"].([]any) { // no /dev of its own: the devices are bound into the root's
				if !strings.HasPrefix(m.(map[string]any)["destination"].(string), "/dev") {
					kept = append(kept, m)
				}
			}
			spec["mounts"] = kept
			at(spec, "linux")["maskedPaths"] = []string{"/etc/secret", "/proc/keys"}
			setArgs(spec, "/bin/sh", "-c", "cat /etc/secret /proc/keys; stat -c %t:%T /etc/secret /proc/keys /dev/null; echo x >/dev/null; echo x >/etc/secret")
		})
		r := run(t, "--bundle", b)
		if r.code != 125 && r.out != "1:3\n1:3\n1:3\n" {
			t.Errorf("%s: %+v", name, r)
		}
		if read(t, out) != "outside" {
			t.Fatalf("%s: the file outside was written", name)
		}
	}
}

// Masks below a volume, and masks that are links in the root: they must not go elsewhere, nor be left out.
func TestMaskedPaths(t *testing.T) {
	// A mask below a volume hides what the volume shows.
	vol := t.TempDir()
	write(t, vol+"/secret", "secret", 0o644)
	b := bundle(t, func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{"destination": "/mnt", "source": vol, "options": []string{"rbind"}})
		at(spec, "linux")["maskedPaths"] = []string{"/mnt/secret"}
		setArgs(spec, "/bin/cat", "/mnt/secret")
	})
	if out := run(t, "--bundle", b).ok(t); out != "" {
		t.Errorf("masked below a volume: %s", out)
	}
	root := busybox(t)
	write(t, root+"/etc/secret", "secret", 0o644)
	symlink(t, "etc", root+"/conf")
	symlink(t, "secret", root+"/etc/link")
	for _, masked := range []string{"/conf/secret", "/etc/link"} {
		b := bundle(t, func(spec map[string]any) {
			spec["root"] = map[string]any{"path": root}
			at(spec, "linux")["maskedPaths"] = []string{masked}
			setArgs(spec, "/bin/cat", "/etc/secret")
		})
		if r := run(t, "--bundle", b); r.code != 125 && r.out != "" {
			t.Errorf("masked %s: %+v", masked, r)
		}
	}
}

// projectatomic/runc#54: a thread exchanges a component of a mount's target with a link to "/" while containers start.
func TestSwappedTarget(t *testing.T) {
	out := t.TempDir() + "/out"
	root := busybox(t)
	for _, dir := range []string{out, root + "/mnt/a/b", root + out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, out, root+"/mnt/evil")
	symlink(t, "/proc/self/root"+out, root+"/evilproc")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			unix.Renameat2(unix.AT_FDCWD, root+"/mnt/a", unix.AT_FDCWD, root+"/mnt/evil", unix.RENAME_EXCHANGE)
			unix.Renameat2(unix.AT_FDCWD, root+"/proc", unix.AT_FDCWD, root+"/evilproc", unix.RENAME_EXCHANGE)
			time.Sleep(50 * time.Microsecond)
		}
	})
	b := bundle(t, func(spec map[string]any) { spec["root"] = map[string]any{"path": root} })
	started := 0
	for i := range 200 {
		args := []string{"--bundle", b}
		if i%2 == 0 {
			args = []string{"--rootfs", root, "--map", "single"}
		}
		r := run(t, append(args, "-v", "/usr:/mnt/a/b/new:ro", "--tmpfs", "/mnt/a/c", "--", "/bin/sh", "-c",
			"cat /proc/self/mountinfo")...)
		switch {
		case r.code == 125 && strings.HasPrefix(r.err, "wolffia: "):
			continue
		case r.code != 0 && !strings.Contains(r.err, "/proc/self/mountinfo"): // the link led proc elsewhere, inside
			t.Errorf("start %d: %+v", i, r)
		}
		started++
		if r.code == 0 {
			inside := parseMounts(t, r.out)
			if len(inside) < 10 || inside["/"].at == "" {
				t.Errorf("start %d: mounts %v", i, inside)
			}
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Fatalf("start %d: made outside of the root: %v", i, left)
		}
	}
	close(stop)
	swapping.Wait()
	if started == 0 {
		t.Error("none of the starts succeeded: the test shows nothing")
	}
}
