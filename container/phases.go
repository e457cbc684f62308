package container

import (
	"wolffia.dev/mount"
	"wolffia.dev/nsexec"
)

// A Phase is a run of the child's steps that serve one purpose, for a reader.
type Phase struct {
	Name  string `json:"name"`
	First int    `json:"first"` // its first step, from 1
}

// add appends a phase's steps; a phase without steps isn't one.
func (c *compiler) add(name string, steps nsexec.Program) {
	if len(steps) == 0 {
		return
	}
	c.phases = append(c.phases, Phase{name, len(c.child) + 1})
	c.child = append(c.child, steps...)
}

// childLane puts the phases in their order.
func (c *compiler) childLane(t *mount.Tree) {
	c.child = make(nsexec.Program, 0, 320)
	c.add("guards: the launcher's memory is shared, and its death must be ours", c.guardSteps())
	c.add("control group: its limits hold from here on", c.enterSteps())
	c.add("sources: layers and binds, opened with exactly the caller's rights", t.Early)
	c.add("id maps: from here on ids have names, and inodes can be made", c.gateSteps())
	c.add("control group", c.cgroupNamespace())
	c.add("network", c.networkSteps())
	for i, m := range c.marks {
		end := len(t.Late)
		if i+1 < len(c.marks) {
			end = c.marks[i+1].First
		}
		c.add(m.Name, t.Late[m.First:end])
	}
	c.add("hostname", c.hostnameSteps())
	c.add("credentials: each step gives up what those before it needed", c.credentialSteps())
	c.add("last things before the program", c.lastSteps())
	c.add("the program: searched as execvp(3) does, and executed", c.execSteps())
}

// mark begins a phase of the mounts.
func (c *compiler) mark(t *mount.Tree, name string) {
	c.marks = append(c.marks, Phase{name, len(t.Late)})
}
