package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// Remedies are commands that can be pasted. They say sudo where only root can.

// dropIn delegates controllers to every user's manager (systemd.resource-control(5)).
const dropIn = `sudo install -D -m 644 /dev/stdin /etc/systemd/system/user@.service.d/delegate.conf <<'END'
[Service]
Delegate=cpu cpuset io memory pids
END
sudo systemctl daemon-reload   # then log in again, or: sudo systemctl restart user@%d.service`

// elsewhere is how to start the launcher alone in a cgroup that is delegated:
// in a scope of systemd's manager, or by hand.
func (c *compiler) elsewhere(h *Hierarchy) string {
	bus := c.facts.Bus
	switch {
	case !bus.Systemd && bus.Manager == "":
		return c.delegateByHand(h)
	case c.facts.UID == 0:
		return "systemd-run --scope -p Delegate=yes wolffia run …"
	case bus.Manager == "":
		return c.noManager().Remedy + "\nsystemd-run --user --scope -p Delegate=yes wolffia run …"
	}
	return "systemd-run --user --scope -p Delegate=yes wolffia run …"
}

func (c *compiler) notDelegated(h *Hierarchy, f Folder) *Refusal {
	r := &Refusal{Reason: NotDelegated, Path: f.Path, Cause: fmt.Sprintf("%s isn't delegated to uid %d (%s)", f.Path, c.facts.UID, f.Denied)}
	switch {
	case strings.Contains(f.Denied, "EROFS"):
		r.Reason = ReadOnly
		r.Cause = h.Mount + " is mounted read-only"
		r.Remedy = "in a container: start the outer one with its cgroups writable"
	case h.Version == 1:
		r.Remedy = c.give(h, f.Path+"/"+c.delegation()) + "   # then: --cgroup-parent " + parentFlag(h, f.Path+"/"+c.delegation())
	default:
		r.Remedy = c.elsewhere(h)
	}
	return r
}

func (c *compiler) delegation() string { return fmt.Sprintf("wolffia-user-%d", c.facts.UID) }

// parentFlag is how --cgroup-parent names a folder: from our own cgroup, or from
// the hierarchy's mount where it isn't below ours.
func parentFlag(h *Hierarchy, folder string) string {
	if len(h.Chain) > 0 && within(folder, h.Chain[0].Path) && folder != h.Chain[0].Path {
		return strings.TrimPrefix(folder[len(h.Chain[0].Path):], "/")
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(folder, h.Mount), "/")
}

// give makes a folder and gives it to the user: what is below is then the
// user's, and the folder's own limits stay root's (cgroups(7), "Delegating a
// hierarchy").
func (c *compiler) give(h *Hierarchy, folder string) string {
	files := "cgroup.procs"
	if h.Version == 2 {
		files = "cgroup.procs cgroup.subtree_control cgroup.threads"
	}
	return fmt.Sprintf(`sudo sh -c 'mkdir -p %s && cd %s && chown %d . %s'`, folder, folder, c.facts.UID, files)
}

// delegateByHand is what systemd does for Delegate=, and this shell moved there.
func (c *compiler) delegateByHand(h *Hierarchy) string {
	folder := h.Mount + "/" + c.delegation()
	return fmt.Sprintf(`echo "+cpu +memory +pids" | sudo tee %s/cgroup.subtree_control
%s
mkdir %s/shell && echo $$ | sudo tee %s/shell/cgroup.procs`, h.Mount, c.give(h, folder), folder, folder)
}

// notEnabled finds where a controller stops on its way down: the highest folder
// that has it and doesn't give it to its children.
func (c *compiler) notEnabled(controller string, chain []Folder) *Refusal {
	r := &Refusal{Reason: ControllerNotDelegated, Controller: controller}
	stop := chain[len(chain)-1]
	for i := len(chain) - 1; i >= 0 && contains(chain[i].Controllers, controller); i-- {
		stop = chain[i]
	}
	r.Path = stop.Path
	r.Cause = fmt.Sprintf("the %s controller isn't delegated to %s: it stops at %s, whose cgroup.subtree_control is %q",
		controller, chain[0].Path, stop.Path, strings.Join(stop.Enabled, " "))
	below := below(chain, stop.Path)
	switch {
	case stop.Enable:
		r.Remedy = fmt.Sprintf("echo +%s >%s/cgroup.subtree_control", controller, stop.Path)
	case strings.HasPrefix(path.Base(below), "user@"):
		r.Remedy = fmt.Sprintf(dropIn, c.facts.UID)
	case strings.HasSuffix(below, ".service"):
		r.Remedy = fmt.Sprintf("sudo systemctl set-property --runtime %s Delegate=yes   # or Delegate= in its unit file, then restart it", path.Base(below))
	case c.facts.Bus.Systemd:
		r.Remedy = fmt.Sprintf(dropIn, c.facts.UID)
	default:
		r.Remedy = fmt.Sprintf("sudo sh -c 'echo +%s >%s/cgroup.subtree_control'   # and in each folder below it down to %s", controller, stop.Path, chain[0].Path)
	}
	return r
}

// below is the folder of the chain under another.
func below(chain []Folder, top string) string {
	for i, f := range chain {
		if f.Path == top && i > 0 {
			return chain[i-1].Path
		}
	}
	return ""
}

func (c *compiler) innerNode(h *Hierarchy, f Folder) *Refusal {
	r := &Refusal{Reason: InnerNode, Path: f.Path,
		Cause: fmt.Sprintf("%s has other processes in it (%d), and a cgroup with processes can't give controllers to its children (EBUSY); wolffia moves itself, and never another process",
			f.Path, f.Others),
		Remedy: c.elsewhere(h) + "   # wolffia is the only process of that scope"}
	if !c.facts.Bus.Systemd && c.facts.Bus.Manager == "" {
		r.Remedy = fmt.Sprintf("mkdir %s/shell && echo $$ >%s/shell/cgroup.procs   # moves this shell out of the way; the others are yours to move", f.Path, f.Path)
	}
	return r
}

func (c *compiler) threaded(h *Hierarchy, f Folder) *Refusal {
	return &Refusal{Reason: Threaded, Path: f.Path, Cause: fmt.Sprintf("%s is %q (cgroup.type), where no folder with processes of its own can be made", f.Path, f.Type),
		Remedy: "start in another cgroup:\n" + c.elsewhere(h)}
}

func (c *compiler) escapes(f Folder, left []string) *Refusal {
	return &Refusal{Reason: EscapesLimit, Path: f.Path,
		Cause:  fmt.Sprintf("in %s the container would not be held to %s, which holds for us", f.Path, strings.Join(left, ", ")),
		Remedy: "run wolffia as the only process of a delegated cgroup that has the limit (systemd-run --user --scope -p Delegate=yes -p MemoryMax=… wolffia run …)\nor name the place: --cgroup-parent " + f.Path}
}

func (c *compiler) outside(h *Hierarchy, f Folder) *Refusal {
	return &Refusal{Reason: Outside, Path: c.wish.Parent,
		Cause:  fmt.Sprintf("a process of %s can't be moved to %s: that takes the right to write %s/cgroup.procs, of the nearest folder above both", h.Own, c.wish.Parent, f.Path),
		Remedy: "start inside the delegated part:\n" + c.elsewhere(h)}
}

func (c *compiler) notThere(h *Hierarchy) *Refusal {
	own := ""
	if len(h.Chain) > 0 {
		own = h.Chain[0].Path
	}
	folder := namedFolder(c.wish.Parent, own, h.Mount)
	return &Refusal{Reason: NamedMissing, Path: folder, Cause: fmt.Sprintf("there is no %s, which --cgroup-parent %s names", folder, c.wish.Parent),
		Remedy: c.give(h, folder)}
}

func (c *compiler) noManager() *Refusal {
	r := &Refusal{Reason: NoManager}
	switch {
	case c.facts.Tree != Unified:
		r.Cause = "systemd hands no controllers of cgroup v1 to users"
	case c.facts.Bus.Systemd:
		r.Cause = "no systemd user manager answers ($XDG_RUNTIME_DIR/systemd/private, $XDG_RUNTIME_DIR/bus, $DBUS_SESSION_BUS_ADDRESS)"
		r.Remedy = fmt.Sprintf("sudo loginctl enable-linger %d; export XDG_RUNTIME_DIR=/run/user/%d", c.facts.UID, c.facts.UID)
	default:
		r.Cause = "no systemd runs here that could make a scope"
	}
	return r
}

func (c *compiler) noScopeTool() *Refusal {
	return &Refusal{Reason: NoScopeTool, Cause: "systemd could make a scope, and " + ScopeTool + ", which asks it, is neither beside this program nor in PATH",
		Remedy: "make install installs both; or --cgroup-manager direct"}
}
