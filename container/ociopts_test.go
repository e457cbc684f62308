package container

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMountOptions(t *testing.T) {
	const ro, nosuid, nodev, noexec = unix.MOUNT_ATTR_RDONLY, unix.MOUNT_ATTR_NOSUID, unix.MOUNT_ATTR_NODEV, unix.MOUNT_ATTR_NOEXEC
	const atimes, noatime, strict = unix.MOUNT_ATTR__ATIME, unix.MOUNT_ATTR_NOATIME, unix.MOUNT_ATTR_STRICTATIME
	for opts, want := range map[string]MountOptions{
		"":                              {},
		"defaults loud nomand async":    {},
		"ro nosuid nodev noexec":        {Set: ro | nosuid | nodev | noexec},
		"ro nosuid rw suid":             {Clear: ro | nosuid},
		"rw ro":                         {Set: ro},
		"dev exec symfollow diratime":   {Clear: nodev | noexec | unix.MOUNT_ATTR_NOSYMFOLLOW | unix.MOUNT_ATTR_NODIRATIME},
		"nosymfollow nodiratime":        {Set: unix.MOUNT_ATTR_NOSYMFOLLOW | unix.MOUNT_ATTR_NODIRATIME},
		"noatime":                       {Set: noatime, Clear: atimes},
		"strictatime noatime":           {Set: noatime, Clear: atimes},
		"noatime relatime":              {Clear: atimes},
		"noatime atime":                 {Clear: atimes},
		"strictatime atime":             {Set: strict, Clear: atimes},
		"noatime nostrictatime":         {Set: noatime, Clear: atimes},
		"strictatime nostrictatime":     {Clear: atimes},
		"norelatime":                    {Set: strict, Clear: atimes},
		"noatime norelatime":            {Set: noatime, Clear: atimes},
		"bind":                          {Bind: true},
		"rbind":                         {Bind: true, Recursive: true},
		"rbind bind":                    {Bind: true},
		"rbind rprivate ro":             {Bind: true, Recursive: true, Propagation: unix.MS_PRIVATE | unix.MS_REC, Set: ro},
		"shared rslave":                 {Propagation: unix.MS_SLAVE | unix.MS_REC},
		"rshared unbindable":            {Propagation: unix.MS_UNBINDABLE},
		"rro rnosuid rnoexec":           {RecSet: ro | nosuid | noexec},
		"rrw rsuid rdev rexec":          {RecClear: ro | nosuid | nodev | noexec},
		"rro rw":                        {RecSet: ro, Clear: ro},
		"rw nosuid rro":                 {RecSet: ro, Set: nosuid},
		"ro rrw":                        {RecClear: ro},
		"strictatime rnoatime":          {RecSet: noatime, RecClear: atimes},
		"rrelatime":                     {RecClear: atimes},
		"rnoatime ratime":               {RecClear: atimes},
		"rnosymfollow rnodiratime":      {RecSet: unix.MOUNT_ATTR_NOSYMFOLLOW | unix.MOUNT_ATTR_NODIRATIME},
		"nosuid mode=755 size=65536k":   {Set: nosuid, Data: []string{"mode=755", "size=65536k"}},
		"newinstance ptmxmode=0666":     {Data: []string{"newinstance", "ptmxmode=0666"}},
		"sync dirsync lazytime":         {Data: []string{"sync", "dirsync", "lazytime"}},
		"sync async lazytime mode=1":    {Data: []string{"lazytime", "mode=1"}},
		"lazytime sync nolazytime sync": {Data: []string{"sync"}},
		"sync async bind":               {Bind: true},
		"bind idmap":                    {Bind: true, IDMap: true},
		"rbind ro ridmap":               {Bind: true, Recursive: true, Set: ro, IDMap: true, RecIDMap: true},
		"ridmap idmap rbind":            {Bind: true, Recursive: true, IDMap: true},
	} {
		got, err := ParseMountOptions(strings.Fields(opts))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v; want %+v", opts, got, err, want)
		}
	}
}

func TestParseMountOptionsRefuses(t *testing.T) {
	for _, test := range []struct {
		opts  []string
		index int
	}{
		{[]string{"bind", "remount", "ro"}, 1},
		{[]string{"mand"}, 0}, {[]string{"iversion"}, 0}, {[]string{"silent"}, 0},
		{[]string{"ro", "idmap=uids=0-1-2"}, 1}, {[]string{"ridmap="}, 0},
		{[]string{"tmpcopyup"}, 0}, {[]string{"copy-symlink"}, 0},
		{[]string{"mode=755,size=4k"}, 0}, {[]string{"a\x00b"}, 0},
		{[]string{"size=4k", "ro", "bind"}, 0}, {[]string{"rbind", "sync"}, 1}, {[]string{"rbind", "z"}, 1},
	} {
		_, err := ParseMountOptions(test.opts)
		fault := new(MountOptionError)
		if !errors.As(err, &fault) || fault.Index != test.index || fault.Option != test.opts[test.index] || fault.Remedy == "" {
			t.Errorf("%q: got %#v, want an error at %d", test.opts, err, test.index)
		}
	}
}

// TestEveryTableOption: each option of the runtime-spec's table (config.md,
// "Linux mount options") is honoured or refused, and none reaches the file
// system as if it were its own, but for the three that the kernel reads there.
func TestEveryTableOption(t *testing.T) {
	for _, opt := range strings.Fields(`async atime bind defaults dev diratime dirsync exec iversion lazytime loud mand
		noatime nodev nodiratime noexec noiversion nolazytime nomand norelatime nostrictatime nosuid nosymfollow private
		ratime rbind rdev rdiratime relatime remount rexec rnoatime rnodev rnodiratime rnoexec rnorelatime rnostrictatime
		rnosuid rnosymfollow ro rprivate rrelatime rro rrw rshared rslave rstrictatime rsuid rsymfollow runbindable rw
		shared silent slave strictatime suid symfollow sync tmpcopyup unbindable idmap ridmap`) {
		got, err := ParseMountOptions([]string{opt})
		if err != nil {
			continue
		}
		if len(got.Data) > 0 && !slices.Contains([]string{"sync", "dirsync", "lazytime"}, opt) {
			t.Errorf("%s is taken for an option of the file system", opt)
		}
		nothing := slices.Contains([]string{"async", "defaults", "loud", "noiversion", "nolazytime", "nomand"}, opt)
		if reflect.DeepEqual(got, MountOptions{}) != nothing {
			t.Errorf("%s: got %+v", opt, got)
		}
	}
}

// FuzzParseMountOptions checks what mount_setattr(2) demands (no attribute
// both set and cleared, access times cleared whole or not at all), and that
// the last option holds whatever came before.
func FuzzParseMountOptions(f *testing.F) {
	f.Add("rbind,ro,rprivate,nosuid")
	f.Add("mode=755,size=64k,strictatime,rnoatime,norelatime")
	f.Add("sync,async,rro,rw,noatime,ratime")
	f.Add("remount\x00,idmap=x,")
	f.Fuzz(func(t *testing.T, list string) {
		opts := strings.Split(list, ",")
		got, err := ParseMountOptions(opts)
		if err != nil {
			fault := new(MountOptionError)
			if !errors.As(err, &fault) || fault.Option != opts[fault.Index] || fault.What == "" || fault.Remedy == "" {
				t.Fatalf("%q: %#v", opts, err)
			}
			return
		}
		checkAttrs(t, got.Set, got.Clear)
		checkAttrs(t, got.RecSet, got.RecClear)
		if got.Bind && got.Data != nil || got.Recursive && !got.Bind {
			t.Fatalf("%q: %+v", opts, got)
		}
		for _, d := range got.Data {
			if d == "" || strings.ContainsAny(d, ",\x00") {
				t.Fatalf("%q: data %q", opts, d)
			}
		}
		checkLastHolds(t, got, opts[len(opts)-1])
	})
}

func checkAttrs(t *testing.T, set, clear uint64) {
	t.Helper()
	const atimes = uint64(unix.MOUNT_ATTR__ATIME)
	if set&clear&^atimes != 0 {
		t.Fatalf("%#x is set and cleared", set&clear)
	}
	if set&atimes != 0 && clear&atimes != atimes || clear&atimes != 0 && clear&atimes != atimes {
		t.Fatalf("access times: set %#x, clear %#x", set, clear)
	}
}

// checkLastHolds: the attributes of a mount after both calls, RecSet first.
func checkLastHolds(t *testing.T, o MountOptions, last string) {
	t.Helper()
	for _, start := range []uint64{0, unix.MOUNT_ATTR_NOATIME, unix.MOUNT_ATTR_STRICTATIME, ^uint64(unix.MOUNT_ATTR__ATIME)} {
		below := start&^o.RecClear | o.RecSet
		top := below&^o.Clear | o.Set
		if name, recursive := strings.CutPrefix(last, "r"); recursive && !holds(below, name) {
			t.Fatalf("%s doesn't hold below: %#x", last, below)
		} else if !holds(top, last) || recursive && !holds(top, name) {
			t.Fatalf("%s doesn't hold: %#x", last, top)
		}
	}
}

func holds(attrs uint64, opt string) bool {
	atime := attrs & unix.MOUNT_ATTR__ATIME
	switch opt {
	case "ro", "rw":
		return (attrs&unix.MOUNT_ATTR_RDONLY != 0) == (opt == "ro")
	case "nosuid", "suid":
		return (attrs&unix.MOUNT_ATTR_NOSUID != 0) == (opt == "nosuid")
	case "noatime", "atime":
		return (atime == unix.MOUNT_ATTR_NOATIME) == (opt == "noatime")
	case "strictatime", "nostrictatime":
		return (atime == unix.MOUNT_ATTR_STRICTATIME) == (opt == "strictatime")
	case "relatime", "norelatime":
		return (atime == unix.MOUNT_ATTR_RELATIME) == (opt == "relatime")
	}
	return true
}
