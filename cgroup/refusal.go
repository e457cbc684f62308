package cgroup

import (
	"fmt"
	"strings"
)

// Reason is why a limit can't be in force. The texts are stable.
type Reason string

const (
	NoCgroupfs             Reason = "no-cgroupfs"
	NoController           Reason = "no-controller"            // in no hierarchy here
	NoForm                 Reason = "no-form"                  // this version of cgroups has no such limit
	OwnMissing             Reason = "own-cgroup-missing"       // the path of /proc/self/cgroup isn't below the mount
	NotDelegated           Reason = "not-delegated"            // we may not make a cgroup there
	ReadOnly               Reason = "read-only"                // the mount is
	ControllerNotDelegated Reason = "controller-not-delegated" // it stops above the folder
	InnerNode              Reason = "inner-node"               // processes of others are in the way
	Threaded               Reason = "threaded"                 //
	EscapesLimit           Reason = "escapes-limit"            // an outer limit would not hold for the container
	Outside                Reason = "outside"                  // we can't be moved there
	NamedMissing           Reason = "named-parent-missing"     //
	NoManager              Reason = "no-systemd-manager"       //
	NoScopeTool            Reason = "no-scope-tool"            //
	ManagerRefused         Reason = "systemd-refused"          // at the start
	EmptyCpuset            Reason = "empty-cpuset"             //
)

// A Refusal is a link of the delegation chain that is missing, and the command
// that mends it.
type Refusal struct {
	Reason     Reason   `json:"reason"`
	Controller string   `json:"controller,omitempty"`
	Limits     []string `json:"limits,omitempty"` // what was asked for
	Path       string   `json:"path,omitempty"`   // where the chain ends
	Cause      string   `json:"cause"`
	Remedy     string   `json:"remedy,omitempty"`
	Tried      []string `json:"tried,omitempty"` // the other places, and why not
}

func (r *Refusal) Error() string {
	msg := r.Cause
	if len(r.Limits) > 0 {
		msg = strings.Join(r.Limits, ", ") + " can't be in force: " + r.Cause
	}
	for _, t := range r.Tried {
		msg += "\n  nor: " + t
	}
	if r.Remedy != "" {
		msg += "\n  " + strings.ReplaceAll(r.Remedy, "\n", "\n  ")
	}
	return msg
}

// RefusedError is a plan that Require forbids.
type RefusedError struct{ Refusals []*Refusal }

func (e *RefusedError) Error() string {
	var list []string
	for _, r := range e.Refusals {
		list = append(list, "cgroup: "+r.Error())
	}
	return strings.Join(list, "\n")
}

// Unwrap gives the refusals to errors.As.
func (e *RefusedError) Unwrap() []error {
	var list []error
	for _, r := range e.Refusals {
		list = append(list, r)
	}
	return list
}

// telling picks the refusal that is nearest to success, and lists the others.
func telling(tried []*Refusal) *Refusal {
	order := []Reason{ControllerNotDelegated, InnerNode, EscapesLimit, Threaded, OwnMissing, ReadOnly, NotDelegated, NoScopeTool, NoManager}
	for _, reason := range order {
		for _, r := range tried {
			if r.Reason == reason {
				return r.besides(tried)
			}
		}
	}
	return &Refusal{Reason: NotDelegated, Cause: "there is no cgroup of ours"}
}

func (r *Refusal) besides(tried []*Refusal) *Refusal {
	chosen := *r
	told := map[Reason]bool{r.Reason: true, NotDelegated: true} // nobody expects those above to be ours
	for _, other := range tried {
		if !told[other.Reason] {
			told[other.Reason] = true
			chosen.Tried = append(chosen.Tried, other.Cause)
		}
	}
	return &chosen
}

func (c *compiler) noTree() *Refusal {
	return &Refusal{Reason: NoCgroupfs, Path: c.facts.Root, Cause: "no cgroup file system is mounted at " + c.facts.Root,
		Remedy: "sudo mount -t cgroup2 none " + c.facts.Root + "   (in a container: start the outer one with its cgroups mounted)"}
}

// noController tells apart: the other version has it, or none has.
func (c *compiler) noController(l Limit) *Refusal {
	r := &Refusal{Reason: NoController, Controller: l.Controller(2), Path: c.facts.Root}
	if r.Controller == "" {
		r.Controller = l.Controller(1)
	}
	v2 := c.facts.v2()
	in1 := c.facts.v1(r.Controller)
	if r.Controller == "io" {
		in1 = c.facts.v1("blkio")
	}
	switch {
	case in1 != nil && len(l.V1) == 0:
		r.Reason, r.Path = NoForm, in1.Mount
		r.Cause = fmt.Sprintf("%s is a limit of cgroup v2, and the %s controller is cgroup v1's here, at %s", l.Key, r.Controller, in1.Mount)
		r.Remedy = "boot with systemd.unified_cgroup_hierarchy=1, or ask for a limit that both versions have"
	case len(l.V2) == 0 && v2 != nil && contains(v2.Controllers, r.Controller):
		r.Reason, r.Path = NoForm, v2.Mount
		r.Cause = fmt.Sprintf("%s is a limit of cgroup v1 alone, and the %s controller is cgroup v2's here", l.Key, r.Controller)
		r.Remedy = "ask for one of cgroup v2's limits"
	default:
		r.Cause = fmt.Sprintf("the %s controller is in no hierarchy at %s: %s", r.Controller, c.facts.Root, c.present())
		r.Remedy = "is it off in the kernel (/proc/cgroups, cgroup_disable= on its command line)? In a container or a cgroup namespace: has the outer cgroup got it (cgroup.subtree_control)?"
	}
	return r
}

// present lists what is there.
func (c *compiler) present() string {
	var list []string
	for _, h := range c.facts.Hierarchies {
		names := strings.Join(h.Controllers, " ")
		if names == "" {
			names = "none"
		}
		list = append(list, fmt.Sprintf("v%d %s has %s", h.Version, h.Mount, names))
	}
	return strings.Join(list, ", ")
}

func (c *compiler) missing(h *Hierarchy) *Refusal {
	return &Refusal{Reason: OwnMissing, Path: h.Mount, Cause: h.Missing,
		Remedy: "the cgroup file system shows another part of the tree than the one we are in: start the outer container with a cgroup namespace of its own (--cgroupns=private), or mount cgroups anew in this one"}
}
