package userns

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Facts are everything that [PlanMaps] needs to know about the caller and his machine. They are plain data: `wolffia
// explain --facts-save` writes them and --facts reads them on another machine.
type Facts struct {
	UID    uint32   `json:"uid"` // effective, as the kernel compares it when a map is written
	GID    uint32   `json:"gid"`
	User   string   `json:"user"` // login name; "" if none was found
	Groups []uint32 `json:"groups,omitempty"`

	UIDMap    IDMap  `json:"uid_map"`   // /proc/self/uid_map: its inside ids are the ids that exist here
	GIDMap    IDMap  `json:"gid_map"`   // /proc/self/gid_map
	Setgroups string `json:"setgroups"` // /proc/self/setgroups: allow or deny

	SubUID     []Range `json:"sub_uid,omitempty"`
	SubGID     []Range `json:"sub_gid,omitempty"`
	NewUIDMap  Tool    `json:"newuidmap"`
	NewGIDMap  Tool    `json:"newgidmap"`
	NextSubID  uint32  `json:"next_sub_id,omitempty"` // first id after all delegated ones, for the remedy "usermod"; 0 is unknown
	FreeRange  *Range  `json:"free_range,omitempty"`  // see findFreeRange; only when privileged and without sub-ids
	Privileged bool    `json:"privileged"`            // effective CAP_SETUID and CAP_SETGID here: maps are written directly
	SetFCap    bool    `json:"setfcap"`               // effective CAP_SETFCAP here: the uid 0 of here may be mapped
	SysAdmin   bool    `json:"sys_admin,omitempty"`   // effective CAP_SYS_ADMIN here: file systems mounted here may be idmapped

	NoNewPrivs bool     `json:"no_new_privs,omitempty"`   // set-uid bits and file capabilities do nothing for us
	Unbounded  []string `json:"not_bounding,omitempty"`   // of CAP_SETUID and CAP_SETGID, what the bounding set lacks
	Barred     string   `json:"helpers_barred,omitempty"` // why newuidmap and newgidmap will refuse this process, whatever it asks
	Notes      []string `json:"notes,omitempty"`          // what was skipped or fell back, e.g. "getsubids failed: …"
}

// note appends to Notes.
func (f *Facts) note(texts ...string) { f.Notes = append(f.Notes, texts...) }

// readStatus takes credentials out of the text of /proc/self/status (proc_pid_status(5)): one read instead of nine
// system calls.
func (f *Facts) readStatus(text string) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		var err error
		switch key {
		case "Uid":
			f.UID, err = f.effective("uid", fields)
		case "Gid":
			f.GID, err = f.effective("gid", fields)
		case "Groups":
			f.Groups, err = parseIDs(fields)
		case "NoNewPrivs":
			f.NoNewPrivs = len(fields) == 1 && fields[0] == "1"
		case "CapEff", "CapBnd":
			err = f.readCaps(key, fields)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// effective is the second of a status line's ids: real, effective, saved, file system.
func (f *Facts) effective(kind string, fields []string) (uint32, error) {
	ids, err := parseIDs(fields)
	if err != nil {
		return 0, err
	}
	if len(ids) != 4 {
		return 0, &ParseError{kind, strings.Join(fields, " "), "want four ids in /proc/self/status"}
	}
	if ids[0] != ids[1] {
		f.note("real " + kind + " " + decimal(ids[0]) + " differs from the effective one, " + decimal(ids[1]) +
			": newuidmap and newgidmap go by the real one")
	}
	return ids[1], nil
}

func parseIDs(fields []string) ([]uint32, error) {
	var ids []uint32
	for _, field := range fields {
		id, err := parseID(field)
		if err != nil {
			return nil, &ParseError{"id", field, err.Error()}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (f *Facts) readCaps(key string, fields []string) error {
	caps, err := parseCaps(fields)
	if err != nil {
		return err
	}
	setuid, setgid := caps&(1<<unix.CAP_SETUID) != 0, caps&(1<<unix.CAP_SETGID) != 0
	if key == "CapEff" {
		f.Privileged = setuid && setgid
		f.SetFCap = caps&(1<<unix.CAP_SETFCAP) != 0
		f.SysAdmin = caps&(1<<unix.CAP_SYS_ADMIN) != 0
		return nil
	}
	if !setuid {
		f.Unbounded = append(f.Unbounded, "CAP_SETUID")
	}
	if !setgid {
		f.Unbounded = append(f.Unbounded, "CAP_SETGID")
	}
	return nil
}

// parseCaps parses a capability set of /proc/self/status, 64 bits in hexadecimal.
func parseCaps(fields []string) (uint64, error) {
	text := strings.Join(fields, " ")
	caps, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, &ParseError{"capabilities", text, "want a hexadecimal number"}
	}
	return caps, nil
}
