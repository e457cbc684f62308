package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/container"
)

// namespaces takes those out that --share names.
func (w *words) namespaces() error {
	types := map[string]specs.LinuxNamespaceType{"net": specs.NetworkNamespace, "pid": specs.PIDNamespace, "ipc": specs.IPCNamespace,
		"uts": specs.UTSNamespace, "cgroup": specs.CgroupNamespace}
	for _, name := range strings.Split(strings.Join(w.share, ","), ",") {
		if name == "" {
			continue
		}
		t, ok := types[name]
		if !ok {
			return &usageError{"--share " + name + ": one of net, pid, ipc, uts, cgroup (user and mount namespaces are always new)"}
		}
		w.spec.Linux.Namespaces = slices.DeleteFunc(w.spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == t })
		if name == "uts" && w.hostname == "" {
			w.spec.Hostname = ""
		}
		if name == "ipc" {
			w.shareIPC()
		}
	}
	return nil
}

// shareIPC shows the host's message queues and shared memory, which belong to
// the ipc namespace that is shared.
func (w *words) shareIPC() {
	w.spec.Mounts = slices.DeleteFunc(w.spec.Mounts, func(m specs.Mount) bool {
		return m.Destination == "/dev/mqueue" || m.Destination == "/dev/shm"
	})
	for _, dir := range []string{"/dev/shm", "/dev/mqueue"} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			w.spec.Mounts = append(w.spec.Mounts, specs.Mount{Destination: dir, Source: dir, Options: []string{"rbind", "nosuid", "nodev", "noexec"}})
		}
	}
}

// mounts adds --tmpfs, --shm-size and -v, in this order.
func (w *words) mounts() error {
	if w.shmSize != "" {
		if err := w.resizeShm(); err != nil {
			return err
		}
	}
	for _, t := range w.tmpfs {
		dest, options, _ := strings.Cut(t, ":")
		if !path.IsAbs(dest) {
			return &usageError{"--tmpfs " + t + ": the destination has to be an absolute path: /DIR[:size=64m,mode=1777]"}
		}
		m := specs.Mount{Destination: dest, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}}
		if options != "" {
			m.Options = append([]string{"nosuid", "nodev"}, strings.Split(options, ",")...)
		}
		w.spec.Mounts = append(w.spec.Mounts, m)
	}
	for _, v := range w.volumes {
		m, err := parseVolume(v)
		if err != nil {
			return err
		}
		w.spec.Mounts = append(w.spec.Mounts, m)
	}
	return nil
}

func (w *words) resizeShm() error {
	for i, m := range w.spec.Mounts {
		if m.Destination == "/dev/shm" && m.Type == "tmpfs" {
			w.spec.Mounts[i].Options = append(slices.DeleteFunc(slices.Clone(m.Options),
				func(o string) bool { return strings.HasPrefix(o, "size=") }), "size="+strings.ToLower(w.shmSize))
			return nil
		}
	}
	return &usageError{"--shm-size: there is no /dev/shm of the container's own to size"}
}

const volumeForm = "want SRC:DST[:OPTION,…] with the options ro, rw and idmap"

// parseVolume reads SRC:DST[:OPTION,…]. The source may contain ':', the
// destination may not.
func parseVolume(v string) (specs.Mount, error) {
	m := specs.Mount{Options: []string{"rbind"}}
	rest := v
	if at := strings.LastIndexByte(v, ':'); at > 0 {
		if options, ok := volumeOptions(v[at+1:]); ok {
			rest, m.Options = v[:at], append(m.Options, options...)
		}
	}
	at := strings.LastIndexByte(rest, ':')
	if at <= 0 {
		return m, &usageError{"-v " + v + ": " + volumeForm}
	}
	m.Destination = rest[at+1:]
	if !path.IsAbs(m.Destination) {
		return m, &usageError{"-v " + v + ": the destination " + strconv.Quote(m.Destination) + " has to be an absolute path in the container\n  " + volumeForm}
	}
	var err error
	m.Source, err = absolute("-v", rest[:at])
	return m, err
}

// volumeOptions are those of a mount, each for all that is mounted below too;
// false if the text isn't a list of options.
func volumeOptions(text string) ([]string, bool) {
	var options []string
	for _, o := range strings.Split(text, ",") {
		switch o {
		case "ro":
			options = append(options, "rro")
		case "idmap":
			options = append(options, "ridmap")
		case "rw":
		default:
			return nil, false
		}
	}
	return options, true
}

func (w *words) caps() error {
	if len(w.capAdd)+len(w.capDrop) == 0 {
		return nil
	}
	split := func(l []string) []string {
		return strings.FieldsFunc(strings.Join(l, ","), func(r rune) bool { return r == ',' })
	}
	caps, err := container.ApplyCaps(container.DefaultCaps(), split(w.capAdd), split(w.capDrop))
	if err != nil {
		return &usageError{"--cap-add, --cap-drop: " + err.Error()}
	}
	w.spec.Process.Capabilities = &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps}
	return nil
}

// limits reads --ulimit NAME=SOFT[:HARD].
func (w *words) limits() error {
	for _, u := range w.ulimits {
		name, values, ok := strings.Cut(u, "=")
		soft, hard, both := strings.Cut(values, ":")
		if !both {
			hard = soft
		}
		s, err1 := limitValue(soft)
		h, err2 := limitValue(hard)
		full := "RLIMIT_" + strings.ToUpper(strings.TrimPrefix(strings.ToUpper(name), "RLIMIT_"))
		if _, known := container.RlimitNumber(full); !ok || err1 != nil || err2 != nil || !known || s > h {
			return &usageError{fmt.Sprintf("--ulimit %s: want NAME=SOFT[:HARD], a name of setrlimit(2) such as nofile, numbers or \"unlimited\", soft at most hard", u)}
		}
		w.spec.Process.Rlimits = append(w.spec.Process.Rlimits, specs.POSIXRlimit{Type: full, Soft: s, Hard: h})
	}
	return nil
}

func limitValue(s string) (uint64, error) {
	if s == "unlimited" || s == "-1" {
		return ^uint64(0), nil
	}
	return strconv.ParseUint(s, 10, 64)
}
