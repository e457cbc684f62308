package container

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// values looks at the fields of which only some values are built.
func (c *check) values(spec *specs.Spec) {
	c.text("hostname", spec.Hostname)
	if len(spec.Hostname) > 64 {
		c.refuse("hostname", "64 bytes are the most (sethostname(2))", "take a shorter one")
	}
	c.version(spec.Version)
	if spec.Process != nil {
		c.process(spec.Process)
	}
	for i, m := range spec.Mounts {
		c.mount(fmt.Sprintf("mounts[%d]", i), m)
	}
	if spec.Linux != nil {
		c.linux(spec.Linux)
	}
}

func (c *check) version(version string) {
	_, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(minor); err == nil && n > specs.VersionMinor {
		c.note("ociVersion", version+" is newer than "+specs.Version+": properties that came after it are ignored")
	}
}

func (c *check) process(p *specs.Process) {
	c.texts("process.args", p.Args)
	c.texts("process.env", p.Env)
	c.text("process.cwd", p.Cwd)
	if p.Terminal {
		c.note("process.terminal", "terminals are not built yet: plain mode, stdin, stdout and stderr pass straight through")
		if p.ConsoleSize != nil {
			c.note("process.consoleSize", "ignored in plain mode")
		}
	}
	c.capabilities(p.Capabilities)
	c.rlimits(p.Rlimits)
	switch {
	case p.OOMScoreAdj == nil:
	case *p.OOMScoreAdj == 0:
		c.note("process.oomScoreAdj", "not written: the container keeps the caller's value")
	default:
		c.refuse("process.oomScoreAdj", "writing oom_score_adj is not built yet", "remove it from config.json, and start wolffia with choom(1)")
	}
}

// capabilities only notes unknown names: the runtime-spec wants a warning.
func (c *check) capabilities(caps *specs.LinuxCapabilities) {
	if caps == nil {
		return
	}
	for _, set := range []struct {
		name string
		caps []string
	}{
		{"bounding", caps.Bounding},
		{"effective", caps.Effective},
		{"inheritable", caps.Inheritable},
		{"permitted", caps.Permitted},
		{"ambient", caps.Ambient},
	} {
		for i, name := range set.caps {
			if _, err := CapNumber(name); err != nil {
				c.note(fmt.Sprintf("process.capabilities.%s[%d]", set.name, i), err.Error()+": not granted")
			}
		}
	}
}

func (c *check) rlimits(limits []specs.POSIXRlimit) {
	seen := make(map[string]bool)
	for i, l := range limits {
		at := fmt.Sprintf("process.rlimits[%d]", i)
		if _, ok := RlimitNumber(l.Type); !ok {
			c.refuse(at+".type", fmt.Sprintf("%q is no limit of setrlimit(2)", l.Type), "write a name like RLIMIT_NOFILE")
		}
		if seen[l.Type] {
			c.refuse(at+".type", l.Type+" is set twice", "keep one of them")
		}
		if l.Soft > l.Hard {
			c.refuse(at+".soft", fmt.Sprintf("%d is above the hard limit of %d", l.Soft, l.Hard), "lower soft or raise hard")
		}
		seen[l.Type] = true
	}
}

func (c *check) mount(at string, m specs.Mount) {
	c.text(at+".destination", m.Destination)
	c.text(at+".source", m.Source)
	if m.Destination == "" {
		c.refuse(at+".destination", "missing", "name the path inside the container")
	}
	c.mountType(at+".type", m)
	_, err := ParseMountOptions(m.Options)
	if fault := new(MountOptionError); errors.As(err, &fault) {
		c.refuse(fmt.Sprintf("%s.options[%d]", at, fault.Index), fault.What, fault.Remedy)
	}
	c.idmap(at, m)
}

// idmap: maps come in pairs (config.md, "Mounts"), and only what is mounted on
// the host can be idmapped: the file systems of a container belong to its own
// user namespace, whose ids they have already.
func (c *check) idmap(at string, m specs.Mount) {
	const what, remedy = "a new file system has the container's ids already, and its owner can't be idmapped to itself (EINVAL)",
		"remove it; a tmpfs takes uid=, gid= and mode= as options"
	own, bind := len(m.UIDMappings)+len(m.GIDMappings) > 0, asksBind(m.Options)
	switch {
	case len(m.UIDMappings) == 0 && own:
		c.refuse(at+".uidMappings", "missing, and gidMappings are there", "write both: the runtime-spec demands it")
	case len(m.GIDMappings) == 0 && own:
		c.refuse(at+".gidMappings", "missing, and uidMappings are there", "write both: the runtime-spec demands it")
	case own && !bind:
		c.refuse(at+".uidMappings", what, remedy)
	}
	for i, opt := range m.Options {
		if (opt == "idmap" || opt == "ridmap") && !bind {
			c.refuse(fmt.Sprintf("%s.options[%d]", at, i), what, remedy)
		}
	}
}

// mountType: the type of a bind mount means nothing, whatever it says.
func (c *check) mountType(at string, m specs.Mount) {
	if asksBind(m.Options) {
		if m.Source == "" {
			c.refuse(strings.TrimSuffix(at, "type")+"source", "a bind mount without a source", "name the path to bind")
		}
		return
	}
	switch m.Type {
	case "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup":
	case "bind", "none", "":
		c.refuse(at, fmt.Sprintf("%q without the option bind or rbind mounts nothing", m.Type), `add "rbind" to the options`)
	case "cgroup2":
		c.refuse(at, "cgroup2 is not built as a type", `write "cgroup", which takes the version that the host has`)
	default:
		c.refuse(at, fmt.Sprintf("file systems of type %q are not built yet", m.Type), "mount it on the host and bind it (rbind)")
	}
}

func (c *check) linux(l *specs.Linux) {
	if l.Resources != nil {
		c.devices(l.Resources.Devices)
	}
	c.namespaces(l.Namespaces)
	c.maskable("linux.maskedPaths", l.MaskedPaths)
	c.maskable("linux.readonlyPaths", l.ReadonlyPaths)
	switch l.RootfsPropagation {
	case "", "private", "rprivate", "slave", "rslave":
	default:
		c.refuse("linux.rootfsPropagation", fmt.Sprintf("%q is not built yet", l.RootfsPropagation), "write private, rprivate, slave or rslave")
	}
}

// devices: a rule that denies is met without a cgroup, since a user namespace
// can't make device nodes and /dev only holds those that wolffia binds.
func (c *check) devices(rules []specs.LinuxDeviceCgroup) {
	denied := 0
	for i, rule := range rules {
		if rule.Allow {
			c.refuse(fmt.Sprintf("linux.resources.devices[%d]", i), "allowing devices by cgroup is not built yet",
				"remove it from config.json, and bind the device by an entry in mounts")
			continue
		}
		denied++
	}
	if denied > 0 {
		c.note("linux.resources.devices", "rules that deny are met without a cgroup: in a user namespace mknod(2) makes no devices, and /dev holds only those bound there")
	}
}

func (c *check) namespaces(list []specs.LinuxNamespace) {
	seen := make(map[specs.LinuxNamespaceType]bool)
	for i, ns := range list {
		at := fmt.Sprintf("linux.namespaces[%d].type", i)
		switch ns.Type {
		case specs.PIDNamespace, specs.NetworkNamespace, specs.MountNamespace, specs.IPCNamespace,
			specs.UTSNamespace, specs.UserNamespace, specs.CgroupNamespace:
		case specs.TimeNamespace:
			c.refuse(at, "time namespaces are not built yet", "remove it from config.json")
		default:
			c.refuse(at, fmt.Sprintf("%q is no namespace of namespaces(7)", ns.Type), "write pid, network, mount, ipc, uts, user or cgroup")
		}
		if seen[ns.Type] {
			c.refuse(at, string(ns.Type)+" is listed twice", "keep one of them")
		}
		seen[ns.Type] = true
	}
}

// RlimitNumber is the resource number of a name in setrlimit(2) (RLIMIT_NOFILE).
func RlimitNumber(name string) (int, bool) {
	switch name {
	case "RLIMIT_CPU":
		return unix.RLIMIT_CPU, true
	case "RLIMIT_FSIZE":
		return unix.RLIMIT_FSIZE, true
	case "RLIMIT_DATA":
		return unix.RLIMIT_DATA, true
	case "RLIMIT_STACK":
		return unix.RLIMIT_STACK, true
	case "RLIMIT_CORE":
		return unix.RLIMIT_CORE, true
	case "RLIMIT_RSS":
		return unix.RLIMIT_RSS, true
	case "RLIMIT_NPROC":
		return unix.RLIMIT_NPROC, true
	case "RLIMIT_NOFILE":
		return unix.RLIMIT_NOFILE, true
	case "RLIMIT_MEMLOCK":
		return unix.RLIMIT_MEMLOCK, true
	case "RLIMIT_AS":
		return unix.RLIMIT_AS, true
	case "RLIMIT_LOCKS":
		return unix.RLIMIT_LOCKS, true
	case "RLIMIT_SIGPENDING":
		return unix.RLIMIT_SIGPENDING, true
	case "RLIMIT_MSGQUEUE":
		return unix.RLIMIT_MSGQUEUE, true
	case "RLIMIT_NICE":
		return unix.RLIMIT_NICE, true
	case "RLIMIT_RTPRIO":
		return unix.RLIMIT_RTPRIO, true
	case "RLIMIT_RTTIME":
		return unix.RLIMIT_RTTIME, true
	}
	return 0, false
}

// text refuses a NUL byte, which no system call can be given.
func (c *check) text(at, value string) {
	if strings.Contains(value, "\x00") {
		c.refuse(at, "it contains a NUL byte, which ends a string for the kernel", "remove it")
	}
}

func (c *check) texts(at string, values []string) {
	for i, v := range values {
		c.text(fmt.Sprintf("%s[%d]", at, i), v)
	}
}

// maskable refuses paths that can't be hidden or protected.
func (c *check) maskable(at string, paths []string) {
	c.texts(at, paths)
	for i, p := range paths {
		if !path.IsAbs(p) || path.Clean(p) == "/" {
			c.refuse(fmt.Sprintf("%s[%d]", at, i), strconv.Quote(p)+" is no absolute path below /", "write it in full, e.g. /proc/kcore")
		}
	}
}
