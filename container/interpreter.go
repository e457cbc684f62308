package container

import (
	"bytes"
	"path"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// probeInterpreters reads the #! line of the program, and of its interpreter if
// that is a script too, as the kernel will (execve(2); four levels). The child
// looks at each of them before its execve, in its final mounts. A view of this
// machine needs no such look: its programs are the host's.
func (f *Facts) probeInterpreters(spec *specs.Spec, o *Options) {
	if o.Root.Kind == RootHost || spec.Process == nil || len(spec.Process.Args) == 0 {
		return
	}
	for _, c := range candidates(spec.Process.Args[0], spec.Process.Env) {
		program := path.Join("/", spec.Process.Cwd, c)
		if path.IsAbs(c) {
			program = c
		}
		for range 4 {
			if program = interpreterOf(o.Root, program); program == "" {
				break
			}
			f.Interpreters = append(f.Interpreters, program)
		}
	}
}

// interpreterOf is the interpreter that a script's first line names, in the
// topmost layer that has the script; "" for anything else.
func interpreterOf(r Root, program string) string {
	layers := append([]string{r.Path}, r.Lower...)
	if r.Upper != "" {
		layers = append([]string{r.Upper}, layers...)
	}
	for _, dir := range layers {
		if line, ok := firstLine(dir, program); ok {
			interpreter, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(line, "#!"), " \t"), " ")
			interpreter, _, _ = strings.Cut(interpreter, "\t")
			if !strings.HasPrefix(line, "#!") {
				return ""
			}
			return interpreter
		}
	}
	return ""
}

// firstLine reads at most the 256 bytes that the kernel looks at.
func firstLine(root, file string) (string, bool) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, file, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", false
	}
	line, _, _ := bytes.Cut(buf[:n], []byte{'\n'})
	return string(line), true
}
