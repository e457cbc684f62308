package doctor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia.dev/cgroup"
	"wolffia.dev/container"
)

func (f *Facts) judgeNetns() Check {
	if c, done := f.early(f.Netns, "made, and its lo is up"); done {
		return c
	}
	return cant(f.refused(f.Netns, "--share net needs none"))
}

func (f *Facts) judgeTun() Check {
	if c, done := f.early(f.Tun, "a TUN device was made in a network namespace"); done {
		return c
	}
	switch f.Tun.Errno {
	case unix.ENOENT, unix.ENODEV, unix.ENXIO:
		return cant(container.Cause{Code: "tun-missing", What: fmt.Sprintf("there is no %s, or no driver behind it (%s)", tunDevice, errnoText(f.Tun.Errno)),
			Remedy: "as root: modprobe tun; in a container: start the outer one with --device /dev/net/tun"})
	case unix.EACCES:
		return cant(container.Cause{Code: "tun-denied", What: "this user may not open " + tunDevice + " (EACCES)", Remedy: "as root: chmod 666 " + tunDevice + " (the device gives nothing without CAP_NET_ADMIN)"})
	}
	return cant(f.refused(f.Tun, "see Documentation/networking/tuntap.rst"))
}

// judgeDrivers lists programs. No driver is built, so none of them matters yet.
func (f *Facts) judgeDrivers() Check {
	if len(f.Drivers) == 0 {
		c, _ := f.early(Attempt{}, "")
		return c
	}
	var found, absent []string
	versions := map[string]string{}
	for _, b := range f.Drivers {
		if b.Path == "" {
			absent = append(absent, b.Name)
			continue
		}
		versions[b.Name] = b.Version
		found = append(found, fmt.Sprintf("%s (%s)", b.Name, b.Version))
	}
	text := "found: " + strings.Join(found, ", ")
	if len(found) == 0 {
		text = "found none of " + strings.Join(absent, ", ")
	}
	return but(text, container.Cause{Code: "drivers-not-built", What: "wolffia has no driver for any yet: a container gets a network of its own with lo alone, or --share net",
		Remedy: "--share net for a container that has to reach the network"}).with("versions", versions).with("absent", absent)
}

// judgeCgroup tells of the limits of one controller.
func judgeCgroup(controller string) func(*Facts) Check {
	return func(f *Facts) Check {
		switch {
		case f.CgroupsErr != nil:
			return cant(container.Cause{Code: "cgroups-unread", What: f.CgroupsErr.Error()})
		case f.Cgroups == nil:
			c, _ := f.early(Attempt{}, "")
			return c
		}
		for _, v := range cgroup.Delegation(f.Cgroups) {
			if v.Controller == controller {
				return delegated(v)
			}
		}
		return cant(container.Cause{Code: string(cgroup.NoController), What: "there is no limit of " + controller})
	}
}

func delegated(v cgroup.Verdict) Check {
	if r := v.Refusal; r != nil {
		what := r.Cause
		for _, tried := range r.Tried {
			what += "; nor: " + tried
		}
		return cant(container.Cause{Code: string(r.Reason), What: what, Remedy: r.Remedy}).with("path", r.Path)
	}
	place := v.Base
	switch v.Placement {
	case cgroup.SystemdUser, cgroup.SystemdSystem:
		place = "a scope of systemd's"
	}
	detail := fmt.Sprintf("limits are written in %s (%s)", place, v.Placement)
	for _, note := range v.Notes {
		detail += "; " + note
	}
	return works(detail).with("placement", v.Placement)
}
