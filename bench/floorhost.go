package bench

import (
	"fmt"

	"wolffia.dev/nsexec"
)

// host writes one op_ call of floor.c for each step of the host lane.
func (w *floorWriter) host(lane []nsexec.HostStep) {
	for _, h := range lane {
		call, err := w.op(h)
		if err != nil && w.err == nil {
			w.err = err
		}
		fmt.Fprintf(&w.hostBody, "\t%s; /* %s */\n", call, comment(h.Name))
	}
}

func (w *floorWriter) op(h nsexec.HostStep) (string, error) {
	switch h.Op {
	case nsexec.OpPipe:
		return fmt.Sprintf("op_pipe(%d)", w.slots[nsexec.Lifeline]), nil
	case nsexec.OpOpenTree:
		return fmt.Sprintf("op_opentree(%s, %d)", quote(h.Path), w.slots[h.Save]), nil
	case nsexec.OpClone:
		return fmt.Sprintf("op_clone(%#xULL)", h.Flags), nil
	case nsexec.OpWrite:
		return fmt.Sprintf("op_write(%s, %s, %d)", quote(h.Path), quote(h.Data), len(h.Data)), nil
	case nsexec.OpExec:
		return w.exec(h), nil
	case nsexec.OpJoin:
		return "op_join()", nil
	case nsexec.OpIDMap:
		return fmt.Sprintf("op_idmap(%d)", w.slots[h.Save]), nil
	case nsexec.OpGate:
		return "op_gate()", nil
	case nsexec.OpKeep:
		return "op_keep()", nil
	case nsexec.OpRelease:
		return "op_release()", nil
	case nsexec.OpDumpable:
		return "op_dumpable()", nil
	}
	return "", fmt.Errorf("bench: the floor has no host step %q yet: add it to floor/floor.c", h.Op)
}

// exec starts a program; its arguments are filled in when the pid is known.
func (w *floorWriter) exec(h nsexec.HostStep) string {
	template, argv := w.array(h.Argv), w.name("argv")
	fmt.Fprintf(&w.data, "static const char *%s[%d];\n", argv, len(h.Argv)+1)
	return fmt.Sprintf("op_exec(%s, %s, %s)", quote(h.Path), template, argv)
}

// inputs closes the fds that the host lane opened for the child.
func (w *floorWriter) inputs() string {
	body := "static void close_inputs(void)\n{\n"
	for _, name := range w.fds {
		body += fmt.Sprintf("\tsys(__NR_close, slot[%d], 0, 0, 0, 0, 0);\n", w.slots[name])
	}
	return body + "}\n"
}
