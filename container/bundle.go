package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// BundleError says why DIR/config.json can't be used. Line and Column (both
// from 1, Column in bytes) are 0 when the fault has no place in the text.
// It unwraps to Err, and so to the errno of a failed open(2) or read(2).
type BundleError struct {
	Path         string // the file or folder at fault
	Line, Column int
	What         string // what is wrong
	Remedy       string // what to do about it
	Err          error  // the cause, or nil
}

func (e *BundleError) Error() string {
	place := e.Path
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", e.Path, e.Line, e.Column)
	}
	return "bundle: " + place + ": " + e.What + "\n  " + e.Remedy
}

func (e *BundleError) Unwrap() error { return e.Err }

// LoadBundle reads DIR/config.json of an OCI bundle. Properties that the
// runtime-spec doesn't define are ignored, as its section "Extensibility"
// demands; what wolffia can't do is refused by CheckSpec, not here.
//
// root.path and the sources of bind mounts are relative to the bundle in the
// file and absolute in the result. Every error is a *BundleError.
func LoadBundle(dir string) (*specs.Spec, error) {
	base, err := absoluteDir(dir)
	if err != nil {
		return nil, err
	}
	config := base + "/config.json"
	data, err := readConfig(base, config)
	if err != nil {
		return nil, err
	}
	spec, err := parseConfig(config, data)
	if err != nil {
		return nil, err
	}
	makeAbsolute(spec, base)
	return spec, nil
}

func absoluteDir(dir string) (string, error) {
	if path.IsAbs(dir) {
		return absoluteFrom("/", dir), nil
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", &BundleError{Path: dir, Err: err, What: "the current folder has no name: " + errnoText(err),
			Remedy: "name the bundle by an absolute path"}
	}
	return absoluteFrom(cwd, dir), nil
}

// readConfig looks before it opens: opening a FIFO would wait for a writer.
func readConfig(dir, config string) ([]byte, error) {
	info, err := os.Stat(config)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &BundleError{Path: config, What: "not a regular file", Remedy: newConfig(dir)}
	}
	if err != nil {
		return nil, missingConfig(dir, config, err)
	}
	data, err := os.ReadFile(config)
	if err != nil {
		return nil, missingConfig(dir, config, err)
	}
	return data, nil
}

func missingConfig(dir, config string, err error) error {
	fault := &BundleError{Path: config, What: "can't be read: " + errnoText(err), Err: err,
		Remedy: "make the folder and the file readable for this user (chmod, chown)"}
	switch {
	case errors.Is(err, unix.ENOTDIR):
		fault.Path, fault.What = dir, "a bundle is a folder, and this isn't one"
		fault.Remedy = "pass the folder that holds config.json"
	case errors.Is(err, fs.ErrNotExist):
		fault.Path, fault.What, fault.Remedy = dir, "no config.json in this folder", newConfig(dir)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			fault.What = "no such folder"
			fault.Remedy = "check the path, or pass --rootfs for a root without a bundle"
		}
	}
	return fault
}

func newConfig(dir string) string {
	return "make one with `cd " + dir + " && crun spec --rootless`, or pass --rootfs for a root without a bundle"
}

func parseConfig(config string, data []byte) (*specs.Spec, error) {
	spec := new(specs.Spec)
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, jsonFault(config, data, err)
	}
	if fault := versionFault(spec.Version); fault != "" {
		return nil, &BundleError{Path: config, What: "ociVersion: " + fault,
			Remedy: `write the runtime-spec's version that the file follows, for example "ociVersion": "` + specs.Version + `"`}
	}
	if spec.Root == nil || spec.Root.Path == "" {
		return nil, &BundleError{Path: config, What: "root.path: missing",
			Remedy: `name the folder of the root file system, for example "root": {"path": "rootfs"}`}
	}
	return spec, nil
}

// jsonFault finds the line and column of what encoding/json reports as a
// count of bytes: those read up to and with the first wrong one.
func jsonFault(config string, data []byte, err error) error {
	fault := &BundleError{Path: config, Err: err, What: err.Error(), Remedy: "mend config.json at this place"}
	offset := int64(len(data))
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		fault.What, offset = "not JSON: "+syntax.Error(), syntax.Offset
	}
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		fault.What, offset = fmt.Sprintf("%s: a JSON %s can't be a %s", kind.Field, kind.Value, kind.Type), kind.Offset
		if kind.Field == "" {
			fault.What = fmt.Sprintf("the file holds a JSON %s, not an object", kind.Value)
		}
	}
	fault.Line, fault.Column = lineColumn(data, offset)
	return fault
}

// lineColumn places the last of the first offset bytes of data.
func lineColumn(data []byte, offset int64) (line, column int) {
	before := string(data[:min(max(offset-1, 0), int64(len(data)))])
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

// versionFault accepts every 1.x: minor versions only add properties, and a
// runtime must ignore those that it doesn't know.
func versionFault(version string) string {
	major, minor, _ := strings.Cut(version, ".")
	switch {
	case version == "":
		return "missing"
	case major != "1":
		return fmt.Sprintf("%q is not supported, 1.x is", version)
	case minor == "" || minor[0] < '0' || minor[0] > '9':
		return fmt.Sprintf("%q is not a version like 1.0.2", version)
	}
	return ""
}

func makeAbsolute(spec *specs.Spec, base string) {
	spec.Root.Path = absoluteFrom(base, spec.Root.Path)
	for i := range spec.Mounts {
		if m := &spec.Mounts[i]; m.Source != "" && asksBind(m.Options) {
			m.Source = absoluteFrom(base, m.Source)
		}
	}
}

// absoluteFrom resolves p against base. A path with ".." is left for the
// kernel to walk: after a symlink, ".." isn't what comes before it in the text.
func absoluteFrom(base, p string) string {
	if !path.IsAbs(p) {
		p = base + "/" + p
	}
	if strings.Contains(p, "..") {
		return p
	}
	return path.Clean(p)
}

// errnoText is the kernel's words for err with the errno's name.
func errnoText(err error) string {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	return fmt.Sprintf("%s (%s)", errno.Error(), unix.ErrnoName(errno))
}
