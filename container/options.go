package container

import "wolffia.dev/userns"

// Options are what a start needs and runtime-spec has no field for.
type Options struct {
	Root        Root
	Map         userns.Request
	AnyUser     bool // no user was asked for: root where the map has one, else our own id
	KeepGroups  bool // keep the caller's supplementary groups
	Cgroups     Cgroups
	AllFacts    bool // probe also what this container doesn't need: the facts are to be saved
	PreserveFDs int  // fds 3 … 2+PreserveFDs are passed on to the program
}

// RootKind is how the container's root is made.
type RootKind string

const (
	RootHost     RootKind = "host"     // a throw-away view of this machine
	RootOverlay  RootKind = "overlay"  // folders with a writable layer on top
	RootReadOnly RootKind = "readonly" // a folder, read-only
	RootDirect   RootKind = "direct"   // a folder as it is, as a bundle asks
)

// Root says where the root comes from.
type Root struct {
	Kind  RootKind `json:"kind"`
	Path  string   `json:"path,omitempty"`  // absolute
	Lower []string `json:"lower,omitempty"` // further layers below Path, the topmost first
	Upper string   `json:"upper,omitempty"` // keeps the changes; empty throws them away
}

// folders are all layers, the topmost first.
func (r Root) folders() []string {
	list := append([]string{r.Path}, r.Lower...)
	if r.Upper != "" {
		list = append([]string{r.Upper}, list...)
	}
	return list
}
