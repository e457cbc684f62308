package doctor

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

const ownNet = unix.CLONE_NEWUSER | unix.CLONE_NEWNET

// netns makes a network namespace with lo up.
func (p *prober) netns() {
	p.Netns = p.do(child{flags: ownNet, steps: nsexec.Program{
		nsexec.Socket("AF_INET", "SOCK_DGRAM", unix.AF_INET, unix.SOCK_DGRAM).Named("open a socket").As("inet"),
		nsexec.InterfaceUp(nsexec.Slot("inet"), "lo").Named("lo up"),
	}})
}

// tun makes a TUN device in a network namespace, as every driver in user space
// does (Documentation/networking/tuntap.rst).
func (p *prober) tun() {
	ifreq := make([]byte, 40)
	copy(ifreq, "tun0")
	binary.NativeEndian.PutUint16(ifreq[16:], unix.IFF_TUN|unix.IFF_NO_PI)
	p.Tun = p.do(child{flags: ownNet, steps: nsexec.Program{
		nsexec.Openat(nsexec.AtCWD(), tunDevice, unix.O_RDWR, 0).Named("open " + tunDevice).As("tun"),
		nsexec.Step{Call: unix.SYS_IOCTL, Args: []nsexec.Arg{nsexec.Slot("tun"), nsexec.Const("TUNSETIFF", unix.TUNSETIFF),
			nsexec.Bytes(`{ifr_name="tun0", ifr_flags=IFF_TUN|IFF_NO_PI}`, ifreq)}}.Named("make a TUN device"),
	}})
}

const tunDevice = "/dev/net/tun"

// drivers looks for the programs that connect a network namespace.
func (p *prober) drivers() {
	for _, name := range []string{"slirp4netns", "pasta", "vpnkit"} {
		p.Drivers = append(p.Drivers, p.binary(name))
	}
}

// binary looks for a program in PATH and asks for its version.
func (p *prober) binary(name string) Binary {
	b := Binary{Name: name, Path: find(name)}
	if b.Path == "" {
		return b
	}
	out, err := userns.RunForOutput(b.Path, []string{name, "--version"}, 5*time.Second)
	if b.Version = strings.TrimSpace(out); err != nil {
		b.Version = "version unknown: " + err.Error()
	}
	b.Version, _, _ = strings.Cut(b.Version, "\n")
	return b
}

func find(name string) string {
	for _, dir := range searchDirs() {
		path := filepath.Join(dir, name)
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return ""
}

// cgroups looks at our place in each hierarchy, and makes and removes a cgroup
// where that is allowed.
func (p *prober) cgroups() {
	if p.Cgroups == nil && p.CgroupsErr == nil {
		p.Cgroups, p.CgroupsErr = cgroup.Probe(cgroup.ProbeOptions{Try: true})
	}
}
