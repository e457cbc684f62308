package cgroup

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ScopeTool is the program that asks systemd for a scope. It stands beside the
// calling program, or in PATH: D-Bus would cost every start of the caller what
// only this one needs.
const ScopeTool = "wolffia-scope"

func scopeTool() string {
	folders := filepath.SplitList(os.Getenv("PATH"))
	if self, err := os.Executable(); err == nil {
		folders = slices.Insert(folders, 0, path.Dir(self))
	}
	for _, dir := range folders {
		file := path.Join(dir, ScopeTool)
		if path.IsAbs(file) && unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return ""
}

// probeBus looks for a systemd manager that would make a scope for us, by
// connecting to its sockets: first the private one of the manager itself, then
// the bus. The manager's own cgroup shows which controllers its scopes can have.
func probeBus(uid int, o ProbeOptions) Bus {
	var st unix.Stat_t
	b := Bus{Systemd: unix.Lstat("/run/systemd/system", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR} // sd_booted(3)
	manager, sockets := "user", userSockets()
	if uid == 0 {
		manager, sockets = "system", []string{"/run/systemd/private", "/run/dbus/system_bus_socket"}
		if !b.Systemd {
			return b
		}
	}
	for _, socket := range sockets {
		pid, ok := answers(socket)
		if !ok {
			continue
		}
		b.Manager, b.Socket = manager, socket
		if strings.HasSuffix(socket, "/private") {
			b.Chain = managerChain(pid, o)
		}
		return b
	}
	return b
}

// userSockets are where the user's manager listens. The last is from
// DBUS_SESSION_BUS_ADDRESS, of which only the unix:path= form is read.
func userSockets() []string {
	var list []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); path.IsAbs(dir) {
		list = append(list, dir+"/systemd/private", dir+"/bus")
	}
	for address := range strings.SplitSeq(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), ";") {
		if p, ok := strings.CutPrefix(address, "unix:path="); ok {
			p, _, _ = strings.Cut(p, ",")
			list = append(list, p)
		}
	}
	return list
}

// answers connects to a socket. pid is who listens there (SO_PEERCRED, unix(7)).
func answers(socket string) (pid int32, ok bool) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if len(socket) > 107 || unix.Connect(fd, &unix.SockaddrUnix{Name: socket}) != nil {
		return 0, false
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, false
	}
	return peer.Pid, true
}

// managerChain looks at the cgroup that the manager manages: it sits in a child
// of it named init.scope.
func managerChain(pid int32, o ProbeOptions) []Folder {
	if pid <= 0 {
		return nil
	}
	text, err := read("/proc/" + strconv.Itoa(int(pid)) + "/cgroup")
	if err != nil {
		return nil
	}
	for _, own := range parseOwn(text) {
		if own.controllers == nil && Look(Root) == Unified {
			folder := path.Join(Root, strings.TrimSuffix(own.path, "/init.scope"))
			return probeChain(folder, cgroupMount{version: 2, point: Root}, ProbeOptions{files: o.files})
		}
	}
	return nil
}
