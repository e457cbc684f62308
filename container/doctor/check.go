package doctor

import (
	"wolffia.dev/container"
)

// State is what became of a check.
type State string

const (
	Works    State = "works"
	WorksBut State = "works-but" // with a restriction, which Causes tell
	Cant     State = "cant"
)

// String is the state as a person says it.
func (s State) String() string {
	switch s {
	case WorksBut:
		return "works, but"
	case Cant:
		return "can't"
	}
	return string(s)
}

// A Check is one mechanism. Names and reasons are stable: programs may rely on
// them, and need not read the texts.
type Check struct {
	Name   string            `json:"name"`
	State  State             `json:"state"`
	Reason string            `json:"reason,omitempty"` // the code of the first cause
	Detail string            `json:"detail,omitempty"` // what was found, for a person
	Causes []container.Cause `json:"causes,omitempty"` // the likeliest first
	Needed bool              `json:"needed"`           // run with its defaults needs it
	Facts  map[string]any    `json:"facts,omitempty"`
}

// works is a check without a but.
func works(detail string) Check { return Check{State: Works, Detail: detail} }

// but is a check that works with a restriction.
func but(detail string, causes ...container.Cause) Check {
	return Check{State: WorksBut, Reason: causes[0].Code, Detail: detail, Causes: causes}
}

func cant(causes ...container.Cause) Check {
	return Check{State: Cant, Reason: causes[0].Code, Causes: causes}
}

// with adds a fact.
func (c Check) with(name string, value any) Check {
	if c.Facts == nil {
		c.Facts = map[string]any{}
	}
	c.Facts[name] = value
	return c
}

// A topic is one mechanism: how it is tried and what that means.
type topic struct {
	name   string
	needed bool
	probe  func(*prober)
	judge  func(*Facts) Check
}

func topics() []topic {
	return []topic{
		{"user-namespaces", true, (*prober).userns, (*Facts).judgeUserns},
		{"sub-ids", true, (*prober).ids, (*Facts).judgeSubIDs},
		{"id-map-helpers", true, (*prober).helpers, (*Facts).judgeHelpers},
		{"userns-fds", false, (*prober).usernsFDs, (*Facts).judgeUsernsFDs},
		{"pidfd", true, (*prober).pidfd, (*Facts).judgePidfd},
		{"ptrace", false, (*prober).ptrace, (*Facts).judgePtrace},
		{"mount-api", true, (*prober).mountAPI, (*Facts).judgeMountAPI},
		{"proc", true, (*prober).proc, (*Facts).judgeProc},
		{"overlay", true, (*prober).overlay, (*Facts).judgeOverlay},
		{"idmapped-mounts", false, (*prober).idmap, (*Facts).judgeIDMap},
		{"cgroup-memory", false, (*prober).cgroups, judgeCgroup("memory")},
		{"cgroup-cpu", false, (*prober).cgroups, judgeCgroup("cpu")},
		{"cgroup-cpuset", false, (*prober).cgroups, judgeCgroup("cpuset")},
		{"cgroup-pids", false, (*prober).cgroups, judgeCgroup("pids")},
		{"cgroup-io", false, (*prober).cgroups, judgeCgroup("io")},
		{"network-namespace", true, (*prober).netns, (*Facts).judgeNetns},
		{"tun", false, (*prober).tun, (*Facts).judgeTun},
		{"network-drivers", false, (*prober).drivers, (*Facts).judgeDrivers},
		{"seccomp", false, (*prober).seccomp, (*Facts).judgeSeccomp},
		{"time-namespaces", false, (*prober).timens, (*Facts).judgeTimens},
		{"keyrings", false, (*prober).keyring, (*Facts).judgeKeyring},
		{"limits", true, (*prober).limits, (*Facts).judgeLimits},
	}
}

// Names are the checks in their order.
func Names() []string {
	var names []string
	for _, t := range topics() {
		names = append(names, t.name)
	}
	return names
}
