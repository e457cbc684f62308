package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"wolffia.dev/userns"
)

// WolffiaLaunch is `wolffia run` of a variant; bin is the built binary.
func WolffiaLaunch(name, bin string, v Variant, rootfs string, args ...string) *Launch {
	l := &Launch{Name: name, Path: bin, Args: append(append([]string{"run"}, v.Flags(rootfs)...), append([]string{"--"}, args...)...)}
	if bin == "" {
		l.Skip = "no wolffia binary: set WOLFFIA_BIN to a built bin/wolffia"
	}
	return l
}

// BwrapLaunch is bubblewrap with the namespaces and mounts of a read-only,
// single-id variant. masked covers the same files of /proc and /sys as well,
// except for the read-only ones, which bwrap's own --proc covers where it can.
func BwrapLaunch(name, rootfs string, masked bool, args ...string) *Launch {
	l := &Launch{Name: name, Path: Find("bwrap")}
	if l.Path == "" {
		l.Skip = "bwrap is not installed"
	}
	l.Args = []string{"--unshare-all", "--uid", "0", "--gid", "0", "--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "wolffia",
		"--ro-bind", rootfs, "/", "--proc", "/proc", "--ro-bind", "/sys", "/sys", "--dev", "/dev", "--tmpfs", "/dev/shm", "--mqueue", "/dev/mqueue"}
	if masked {
		for _, p := range maskedPaths() {
			info, err := os.Lstat(p)
			switch {
			case err != nil:
			case info.IsDir():
				l.Args = append(l.Args, "--tmpfs", p)
			default:
				l.Args = append(l.Args, "--ro-bind", "/dev/null", p)
			}
		}
	}
	l.Args = append(append(l.Args, "--"), args...)
	return l
}

func maskedPaths() []string {
	spec, _ := Variant{}.Request("/")
	return spec.Linux.MaskedPaths
}

// CrunLaunch is `crun run` of the bundle that `crun spec --rootless` writes in
// dir. With single it has a map of the caller's own id alone, else crun maps all
// sub-ids. Its root is the folder itself; no overlay, no cgroup namespace.
func CrunLaunch(name, dir, rootfs string, mode userns.Mode, args ...string) *Launch {
	l := &Launch{Name: name, Path: Find("crun"), Dir: dir}
	if l.Path == "" {
		l.Skip = "crun is not installed"
		return l
	}
	if err := crunBundle(l.Path, dir, rootfs, mode, args); err != nil {
		l.Skip = err.Error()
	}
	l.Args = []string{"--root", filepath.Join(dir, "state"), "--cgroup-manager=disabled", "run", "--bundle", dir, "wolffia-bench-" + string(mode)}
	return l
}

func crunBundle(crun, dir, rootfs string, mode userns.Mode, args []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(crun, "spec", "--rootless")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("crun spec --rootless: %w: %s", err, out)
	}
	file := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config struct{ Process, Root, Linux map[string]any }
	all := map[string]any{}
	if err := errors.Join(json.Unmarshal(data, &config), json.Unmarshal(data, &all)); err != nil {
		return err
	}
	config.Process["terminal"], config.Process["args"] = false, args
	config.Root["path"] = rootfs
	if mode == userns.Single {
		config.Linux["uidMappings"], config.Linux["gidMappings"] = ownID(os.Getuid()), ownID(os.Getgid())
	}
	all["process"], all["root"], all["linux"] = config.Process, config.Root, config.Linux
	if data, err = json.Marshal(all); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

func ownID(id int) []map[string]int {
	return []map[string]int{{"containerID": 0, "hostID": id, "size": 1}}
}
