package userns

import (
	"context"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

var denyText = []byte("deny")

// helpers has newuidmap and newgidmap write the maps that we can't.
func (o *Opener) helpers(ctx context.Context, x *opening, m *Maps) error {
	var commands []nsexec.Command
	pid := decimal(uint32(x.child.id()))
	for _, h := range []struct {
		by   Writer
		name string
		ids  IDMap
	}{{m.UIDWriter, "newuidmap", m.UID}, {m.GIDWriter, "newgidmap", m.GID}} {
		if !h.by.Direct() {
			commands = append(commands, nsexec.Command{Path: h.by.Helper, Argv: append([]string{h.name, pid}, h.ids.Fields()...)})
		}
	}
	notes, err := o.spawner.RunAll(ctx, commands)
	o.note(notes...)
	if err != nil {
		return err
	}
	return x.writeRest(m)
}

// writeRest writes the map that no helper wrote, and looks at those that one wrote.
func (x *opening) writeRest(m *Maps) error {
	if m.DenySetgroups {
		if err := writeAll(x.setgroups, denyText); err != nil {
			return err
		}
	}
	for _, side := range []struct {
		by   Writer
		fd   int
		text []byte
	}{{m.UIDWriter, x.uidMap, m.uidText}, {m.GIDWriter, x.gidMap, m.gidText}} {
		var seen [1]byte
		if side.by.Direct() {
			if err := writeAll(side.fd, side.text); err != nil {
				return err
			}
		} else if n, _ := unix.Pread(side.fd, seen[:], 0); n == 0 {
			return &NoMapError{Helper: side.by.Helper}
		}
	}
	return nil
}
