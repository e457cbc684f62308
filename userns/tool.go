package userns

import (
	"fmt"
	"strings"
)

// Tool is newuidmap(1) or newgidmap(1) as it was found in PATH, with all that decides whether it can write a map.
// Found is false when there is none, and then only Name and Searched are set.
type Tool struct {
	Name        string   `json:"name"`
	Found       bool     `json:"found"`
	Path        string   `json:"path,omitempty"`
	UID         uint32   `json:"uid"`                     // owner, as an id of our namespace
	Mode        uint32   `json:"mode,omitempty"`          // st_mode & 07777
	FileCaps    bool     `json:"file_caps,omitempty"`     // security.capability grants the capability that it needs
	NoSUID      bool     `json:"nosuid,omitempty"`        // its file system is mounted nosuid
	NotForUs    bool     `json:"not_for_us,omitempty"`    // access(X_OK) says no
	FileCapsErr string   `json:"file_caps_err,omitempty"` // why security.capability could not be read or grants nothing
	PassedOver  []string `json:"passed_over,omitempty"`   // problems of candidates before it in PATH that can't write maps
	Others      []string `json:"others,omitempty"`        // later candidates in PATH, none of them any better
	Searched    []string `json:"searched,omitempty"`      // where it was looked for
}

// setUID reports whether executing the file makes the process root.
func (t Tool) setUID() bool { return t.Mode&0o4000 != 0 && t.UID == 0 }

// capability is what the tool needs in its parent namespace to write a map.
func (t Tool) capability() string {
	if t.Name == "newgidmap" {
		return "CAP_SETGID"
	}
	return "CAP_SETUID"
}

// Problem says why the tool can't write maps: its path, owner and mode and the privilege that is missing. It is ""
// if it can.
func (t Tool) Problem() string {
	if !t.Found {
		return fmt.Sprintf("%s is not installed (looked in %s)", t.Name, strings.Join(t.Searched, ", "))
	}
	reason := t.fault()
	if reason == "" {
		return ""
	}
	text := fmt.Sprintf("%s (owner uid %d, mode %04o) can't write id maps: %s", t.Path, t.UID, t.Mode, reason)
	if len(t.Others) > 0 {
		text += "; neither can " + strings.Join(t.Others, ", nor ")
	}
	return text
}

func (t Tool) fault() string {
	switch {
	case t.NotForUs:
		return "this user may not execute it"
	case t.NoSUID && (t.setUID() || t.FileCaps):
		return "its file system is mounted nosuid, which takes the set-uid bit and file capabilities away"
	case t.setUID(), t.FileCaps:
		return ""
	}
	return t.missingPrivilege()
}

func (t Tool) missingPrivilege() string {
	reason := fmt.Sprintf("it has no set-uid bit and no file capability %s", t.capability())
	if t.Mode&0o4000 != 0 {
		reason = fmt.Sprintf("it is set-uid, but root (uid 0) doesn't own it, and it has no file capability %s",
			t.capability())
	}
	if t.FileCapsErr != "" {
		reason += " (" + t.FileCapsErr + ")"
	}
	return reason
}
