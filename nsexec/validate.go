package nsexec

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Validate checks both lanes: the order of the host steps, gates opened in the
// order in which the child waits at them, slots filled before use. A fault is a
// bug of whoever made the plan.
func (p *Plan) Validate() error {
	var c planCheck
	for i, h := range p.Host {
		if reason := c.fault(h); reason != "" {
			return &InvalidError{Index: i, Step: "host " + h.Name, Reason: reason}
		}
	}
	if reason := c.end(p); reason != "" {
		return &InvalidError{Step: "host lane", Reason: reason}
	}
	if err := p.Child.Validate(c.inputs...); err != nil {
		return err
	}
	if err := checkJoins(p.Child); err != nil {
		return err
	}
	return c.checkGates(p.Child)
}

// checkJoins refuses a child that shares our memory and enters a namespace in
// which others may be: with privilege there they could read it all through
// /proc/PID/mem.
func checkJoins(child Program) error {
	for i, s := range child {
		if s.Call == unix.SYS_SETNS {
			return &InvalidError{Index: i, Step: s.Name, Reason: "a child that shares the launcher's memory must not enter namespaces that others are in: use RunPrivate"}
		}
	}
	return nil
}

// planCheck is what the host steps up to here did.
type planCheck struct {
	inputs, gates            []string
	cloned, released, flagOn bool
	network                  bool // the Network is started
	running                  bool // a program that nobody waits for yet
}

// fault is what is wrong with one host step after those before it.
func (c *planCheck) fault(h HostStep) string {
	if reason := c.order(h); reason != "" {
		return reason
	}
	switch h.Op {
	case OpPipe:
		c.inputs = append(c.inputs, Lifeline)
	case OpOpenTree, OpUserns, OpSocket:
		c.inputs = append(c.inputs, h.slot())
	case OpNetwork:
		c.network = true
	case OpClone:
		c.cloned = true
	case OpGate:
		c.gates = append(c.gates, h.Data)
	case OpRelease:
		c.released = true
	case OpDumpable:
		c.flagOn = true
	case OpExec, OpJoin:
		c.running = h.Op == OpExec
	}
	return ""
}

func (c *planCheck) order(h HostStep) string {
	switch {
	case !c.cloned && needsChild(h):
		return "it needs the child, which isn't made yet"
	case c.cloned && (h.fills() || h.Op == OpClone):
		return "the child is made already"
	case h.Op == OpNetwork && !slices.Contains(c.inputs, Handover):
		return "the network needs the socket of the handover"
	case h.Op == OpReady && !c.network:
		return "the network isn't started yet"
	case h.Op == OpGate && !slices.Contains(c.inputs, Lifeline):
		return "a gate needs the lifeline"
	case (h.Op == OpIDMap || h.Op == OpPropagation) && !slices.Contains(c.inputs, h.Save):
		return "slot " + h.Save + " is used before it is filled"
	case h.Userns != "" && !slices.Contains(c.inputs, h.Userns):
		return "slot " + h.Userns + " is used before it is filled"
	case h.fills() && slices.Contains(c.inputs, h.slot()):
		return "its slot is filled twice"
	case h.Op == OpDumpable && !c.released:
		return "the child may still clear the flag: it needs a release step before it"
	}
	return ""
}

// fills: the step fills a slot, which the child inherits.
func (h HostStep) fills() bool {
	return h.Op == OpPipe || h.Op == OpOpenTree || h.Op == OpUserns || h.Op == OpSocket
}

func (h HostStep) slot() string {
	if h.Op == OpPipe {
		return Lifeline
	}
	if h.Op == OpSocket {
		return Handover
	}
	return h.Save
}

func needsChild(h HostStep) bool {
	switch h.Op {
	case OpGate, OpKeep, OpRelease, OpDumpable, OpNetwork, OpReady:
		return true
	case OpIDMap:
		return h.Userns == ""
	}
	return namesChild(h.Path) || slices.ContainsFunc(h.Argv, namesChild)
}

// namesChild: ChildPID stands alone or in a path below /proc, so that a word of
// the user's is never taken for it.
func namesChild(s string) bool { return s == ChildPID || strings.HasPrefix(s, childProc) }

const childProc = "/proc/" + ChildPID + "/"

func (c *planCheck) end(p *Plan) string {
	switch {
	case !c.cloned:
		return "no clone step"
	case c.running:
		return "a program is started and no join step waits for it"
	case p.DropsDumpable && (!c.flagOn || !slices.Contains(c.gates, GateCredentials)):
		return "a child that drops the dumpable flag needs the gate " + GateCredentials + " and a dumpable step"
	case p.Fault != nil:
		return p.Fault.reason(p)
	}
	return ""
}

func (c *planCheck) checkGates(child Program) error {
	gates := c.gates
	for i, s := range child {
		name, is := s.gate()
		switch {
		case !is:
		case len(gates) == 0 || gates[0] != name:
			return &InvalidError{Index: i, Step: s.Name, Reason: "the host lane doesn't open this gate at this place"}
		default:
			gates = gates[1:]
		}
	}
	if len(gates) > 0 {
		return &InvalidError{Step: "host lane", Reason: "nobody waits at the gate " + gates[0]}
	}
	return nil
}
