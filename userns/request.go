package userns

import "strings"

// Mode is the kind of map that --map asks for.
type Mode string

const (
	Auto   Mode = "auto"   // own id and all sub-ids; as root, an unprivileged range
	Single Mode = "single" // inside 0 is the own id, and there is no other
	Host   Mode = "host"   // identity: every id is the same inside and outside
	Spec   Mode = "spec"   // the extents that the caller wrote
)

// Request is what the caller asked for. UID and GID, where set, are explicit maps (--uid-map, --gid-map) and go
// before Mode; with Mode Spec both must be set. Their outside ids are ids of the caller's namespace.
type Request struct {
	Mode Mode  `json:"mode"`
	UID  IDMap `json:"uid_map,omitempty"`
	GID  IDMap `json:"gid_map,omitempty"`
}

// ParseRequest parses the value of --map: auto, single, host, or extents C:H:N[,C:H:N…], which then serve for uids
// and gids alike. The error is a *ParseError.
func ParseRequest(s string) (Request, error) {
	switch mode := Mode(s); mode {
	case Auto, Single, Host:
		return Request{Mode: mode}, nil
	}
	if !strings.Contains(s, ":") {
		return Request{}, &ParseError{"--map", s, "want auto, single, host or C:H:N[,C:H:N…]"}
	}
	m, err := ParseExtents(s)
	if err != nil {
		return Request{}, err
	}
	return Request{Mode: Spec, UID: m, GID: append(IDMap(nil), m...)}, nil
}
