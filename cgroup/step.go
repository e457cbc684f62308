package cgroup

import "strconv"

// Op is what one step does.
type Op string

const (
	OpScope  Op = "scope"  // run the program Argv, which asks systemd for a scope around us; ScopePath is its cgroup from then on
	OpMkdir  Op = "mkdir"  // make the cgroup Path
	OpLock   Op = "lock"   // open Path and flock it: as long as we live nobody takes it for a dead one
	OpMove   Op = "move"   // move the launcher itself: write its pid, Data, to Path
	OpEnable Op = "enable" // enable controllers for the children: write Data to Path
	OpWrite  Op = "write"  // write the limit Data to Path
	OpRead   Op = "read"   // read Path back, into the ledger
	OpAttach Op = "attach" // write the child's pid to Path
)

// ScopePath stands for the scope's cgroup in the steps behind OpScope.
const ScopePath = "SCOPE"

// ChildPID stands for the child's pid.
const ChildPID = "CHILD"

// A Step is one thing that the launcher does on the host side. It is data: it
// is printed before it is done.
type Step struct {
	Name  string   `json:"name"`
	Op    Op       `json:"op"`
	Path  string   `json:"path,omitempty"`
	Data  string   `json:"data,omitempty"`
	Argv  []string `json:"argv,omitempty"`
	Entry int      `json:"entry,omitempty"` // of the ledger, from 1
	Why   string   `json:"why,omitempty"`
	Man   string   `json:"man,omitempty"`
}

// String is the step as a call.
func (s Step) String() string {
	path := strconv.Quote(s.Path)
	switch s.Op {
	case OpScope:
		text := ScopePath + " = execve("
		for i, arg := range s.Argv {
			if i > 0 {
				text += " "
			}
			text += arg
		}
		return text + ")"
	case OpMkdir:
		return "mkdir(" + path + ", 0755)"
	case OpLock:
		return "flock(open(" + path + ", O_RDONLY|O_DIRECTORY|O_CLOEXEC), LOCK_EX|LOCK_NB)"
	case OpMove, OpEnable, OpWrite, OpAttach:
		return "write(" + path + ", " + strconv.Quote(s.Data) + ")"
	case OpRead:
		return "read(" + path + ")"
	}
	return string(s.Op)
}
