package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProbeOptions say where [Probe] looks. The zero value is this machine and this process.
type ProbeOptions struct {
	Root    string        // prefix of every path read or executed; "" is /
	Path    string        // directories to look for newuidmap, newgidmap and getsubids in; "" is $PATH
	User    string        // login name for a uid that /etc/passwd lacks; "" is $USER
	Mode    Mode          // what will be planned: single and host need no sub-ids and no helpers, so none are looked for
	Timeout time.Duration // for each run of getsubids; 0 is 5 s
}

// ProbeError is a file that Probe can't do without. It unwraps to the errno.
type ProbeError struct {
	Err    error // a *fs.PathError or *ParseError
	Remedy string
}

func (e *ProbeError) Error() string {
	return fmt.Sprintf("userns: probe: %v\n  %s", e.Err, e.Remedy)
}

func (e *ProbeError) Unwrap() error { return e.Err }

// prober carries one Probe: the options, with defaults filled in, and the facts found so far.
type prober struct {
	opts      ProbeOptions
	dirs      []string
	everybody []subIDLine // sub-ids of everybody
	passwd    string
	*Facts
}

// Probe finds out who the caller is: five files of /proc/self, /etc/passwd, /etc/subuid, /etc/subgid and
// /etc/nsswitch.conf are read, and newuidmap and newgidmap looked at. It changes nothing. The error is a *ProbeError;
// whatever merely makes some maps impossible is a fact, not an error.
func Probe(opts ProbeOptions) (*Facts, error) {
	p := &prober{opts: opts.withDefaults(), Facts: &Facts{}}
	p.dirs = searchDirs(p.opts.Path)
	if err := p.self(); err != nil {
		return nil, err
	}
	p.passwd = p.optional("/etc/passwd")
	p.User = p.login(opts.User)
	if opts.Mode == Single || opts.Mode == Host {
		p.note("subordinate ids and helpers not looked for: --map " + string(opts.Mode) + " needs none")
		return p.Facts, nil
	}
	p.subIDs()
	p.NewUIDMap = findTool("newuidmap", p.opts.Root, p.dirs)
	p.NewGIDMap = findTool("newgidmap", p.opts.Root, p.dirs)
	return p.Facts, nil
}

func (o ProbeOptions) withDefaults() ProbeOptions {
	if o.Path == "" {
		o.Path = os.Getenv("PATH")
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	return o
}

// self reads the files of /proc/self.
func (p *prober) self() error {
	for _, file := range []struct {
		path string
		take func(text string) error
	}{
		{"/proc/self/status", p.readStatus},
		{"/proc/self/uid_map", into(&p.UIDMap)},
		{"/proc/self/gid_map", into(&p.GIDMap)},
		{"/proc/self/setgroups", func(text string) error { p.Setgroups = strings.TrimSpace(text); return nil }},
	} {
		text, err := readFile(filepath.Join(p.opts.Root, file.path))
		if err == nil {
			err = file.take(text)
		}
		if err != nil {
			if errors.Is(err, syscall.EMFILE) {
				return &ProbeError{err, "the limit of open files is too low for a start: raise it with ulimit -n, or ulimit -Hn (RLIMIT_NOFILE)"}
			}
			return &ProbeError{err, "/proc must be mounted, and the kernel built with CONFIG_USER_NS; see user_namespaces(7)"}
		}
	}
	return nil
}

func into(m *IDMap) func(string) error {
	return func(text string) (err error) {
		*m, err = ParseIDMap(text)
		return err
	}
}

// optional reads a file of /etc. One that isn't there is empty; one that can't be read leaves a note.
func (p *prober) optional(path string) string {
	text, err := readFile(filepath.Join(p.opts.Root, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.note(err.Error())
	}
	return text
}

// login is the caller's login name. A user of a directory service has no line in /etc/passwd, and asking the service
// takes the C library; the environment's word is good enough, since newuidmap checks it against the uid.
func (p *prober) login(user string) string {
	for line := range strings.Lines(p.passwd) {
		fields := strings.Split(line, ":")
		if len(fields) >= 4 && fields[2] == decimal(p.UID) {
			p.checkGroup(fields[0], fields[3])
			return fields[0]
		}
	}
	if user == "" {
		user = os.Getenv("USER")
	}
	p.note(fmt.Sprintf("/etc/passwd has no line for uid %d: took the name %s from the environment (USER)",
		p.UID, strconv.Quote(user)))
	return user
}

// checkGroup finds a process whose gid isn't its user's primary group (after newgrp(1), say): newuidmap and newgidmap
// take it for somebody else's, unless /etc/login.defs says GRANT_AUX_GROUP_SUBIDS yes (shadow 4.9).
func (p *prober) checkGroup(user, primary string) {
	if primary == decimal(p.GID) {
		return
	}
	for line := range strings.Lines(p.optional("/etc/login.defs")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "GRANT_AUX_GROUP_SUBIDS" && strings.EqualFold(fields[1], "yes") {
			return
		}
	}
	p.Barred = fmt.Sprintf("this process has gid %d, but the primary group of %q is %s, and then it refuses (shadow takes the process for somebody else's)",
		p.GID, user, primary)
}
