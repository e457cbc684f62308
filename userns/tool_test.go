package userns

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rootless-containers/rootlesskit#404 and #326: whatever a helper lacks is named, with path, owner and mode.
func TestToolProblem(t *testing.T) {
	for _, c := range []struct {
		tool  Tool
		words []string
	}{
		{Tool{Found: true, Path: "/a", Mode: 0o4755}, nil},
		{Tool{Found: true, Path: "/a", UID: 1000, Mode: 0o755, FileCaps: true}, nil},
		{Tool{Name: "newgidmap", Searched: []string{"/x", "/y"}}, []string{"newgidmap is not installed (looked in /x, /y)"}},
		{Tool{Name: "newgidmap", Found: true, Path: "/a", Mode: 0o755}, []string{"/a (owner uid 0, mode 0755)", "no set-uid bit and no file capability CAP_SETGID"}},
		{Tool{Found: true, Path: "/a", UID: 1000, Mode: 0o4755}, []string{"owner uid 1000, mode 4755", "set-uid, but root (uid 0) doesn't own it", "CAP_SETUID"}},
		{Tool{Found: true, Path: "/a", Mode: 0o4755, NoSUID: true}, []string{"mounted nosuid"}},
		{Tool{Found: true, Path: "/a", Mode: 0o4750, NotForUs: true}, []string{"may not execute"}},
		{Tool{Found: true, Path: "/a", Mode: 0o755, FileCapsErr: "others", Others: []string{"/b (…) can't"}}, []string{"(others)", "; neither can /b"}},
	} {
		problem := c.tool.Problem()
		if (problem == "") != (c.words == nil) {
			t.Errorf("%+v: %q", c.tool, problem)
		}
		for _, word := range c.words {
			if !strings.Contains(problem, word) {
				t.Errorf("%q doesn't say %q", problem, word)
			}
		}
	}
}

// vfsCap is an attribute security.capability of revision 2, or 3 if rootID isn't 0.
func vfsCap(effective bool, permitted uint32, rootID uint32) []byte {
	magic := uint32(0x02000000)
	if rootID != 0 {
		magic = 0x03000000
	}
	if effective {
		magic |= 1
	}
	data := binary.LittleEndian.AppendUint32(nil, magic)
	data = binary.LittleEndian.AppendUint32(data, permitted)
	data = append(data, make([]byte, 12)...)
	if rootID != 0 {
		data = binary.LittleEndian.AppendUint32(data, rootID)
	}
	return data
}

func TestCapsGrant(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want bool
	}{
		{"setuid", vfsCap(true, 1<<unix.CAP_SETUID, 0), true},
		{"setgid only", vfsCap(true, 1<<unix.CAP_SETGID, 0), false},
		{"not effective", vfsCap(false, 1<<unix.CAP_SETUID, 0), false},
		{"of another namespace", vfsCap(true, 1<<unix.CAP_SETUID, 1000), false},
		{"short", []byte{1, 2, 3}, false},
		{"empty", nil, false},
	} {
		if got, why := capsGrant(c.data, "CAP_SETUID"); got != c.want || got == (why != "") {
			t.Errorf("%s: %v, %q", c.name, got, why)
		}
	}
}

// rootless-containers/rootlesskit#326: an unprivileged copy comes first in PATH and the system's own later.
func TestFindToolPassesOver(t *testing.T) {
	if _, err := os.Stat("/usr/bin/newuidmap"); err != nil {
		missing(t, "/usr/bin/newuidmap (Debian: apt-get install uidmap)")
	}
	dir := t.TempDir()
	put(t, dir, "bin/newuidmap", "#!/bin/sh\n")
	mine := filepath.Join(dir, "bin")
	tool := findTool("newuidmap", "", searchDirs("relative:.:"+mine+":/usr/bin"))
	if tool.Path != "/usr/bin/newuidmap" || tool.Problem() != "" || len(tool.PassedOver) != 1 || !strings.Contains(tool.PassedOver[0], mine) {
		t.Errorf("%+v", tool)
	}
}

// rootless-containers/rootlesskit#404: no candidate has the privilege, and all are named.
func TestFindToolNoneGood(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a/bin/newuidmap", "b/bin/newuidmap"} {
		put(t, dir, path, "#!/bin/sh\n")
	}
	if err := os.MkdirAll(filepath.Join(dir, "c/bin/newuidmap"), 0o755); err != nil { // a folder is no candidate
		t.Fatal(err)
	}
	tool := findTool("newuidmap", dir, []string{"/c/bin", "/a/bin", "/b/bin", "/a/bin"})
	problem := tool.Problem()
	if !strings.Contains(problem, "/a/bin/newuidmap (owner uid ") || !strings.Contains(problem, "mode 0755") || strings.Count(problem, "/b/bin/newuidmap") != 1 {
		t.Errorf("%+v: %q", tool, problem)
	}
}

// File capabilities are as good as the set-uid bit, and are read from the file: rootless-containers/rootlesskit#404.
func TestRootToolFileCaps(t *testing.T) {
	rootOnly(t)
	dir := t.TempDir()
	put(t, dir, "bin/newgidmap", "#!/bin/sh\n")
	path := filepath.Join(dir, "bin/newgidmap")
	for _, c := range []struct {
		caps []byte
		good bool
	}{
		{vfsCap(true, 1<<unix.CAP_SETGID, 0), true},
		{vfsCap(true, 1<<unix.CAP_SETUID, 0), false},
		{vfsCap(true, 1<<unix.CAP_SETGID, 4242), false},
	} {
		if err := unix.Setxattr(path, "security.capability", c.caps, 0); err != nil {
			missing(t, "file capabilities on the file system of "+dir+": "+err.Error())
		}
		tool := findTool("newgidmap", "", []string{filepath.Join(dir, "bin")})
		if tool.NoSUID {
			missing(t, dir+" on a file system that isn't mounted nosuid")
		}
		if (tool.Problem() == "") != c.good {
			t.Errorf("%+v: %q", tool, tool.Problem())
		}
	}
}
