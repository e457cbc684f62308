package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Launch is a command whose whole life is timed: a peer's, ours, the floor's.
type Launch struct {
	Name string
	Path string // absolute
	Args []string
	Dir  string
	Skip string // why it can't be measured here
}

// environment is what every launched process gets. No TERM: see Variant.Request.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + os.Getenv("HOME")}
}

// Time starts the process and waits for its end. What that takes beside the
// process's own time is the same for all: a vfork, an execve, a wait.
func (l *Launch) Time(stderr *os.File) (time.Duration, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if stderr == nil {
		stderr = null
	}
	attr := &os.ProcAttr{Dir: l.Dir, Env: environment(), Files: []*os.File{null, null, stderr}}
	start := time.Now()
	p, err := os.StartProcess(l.Path, append([]string{filepath.Base(l.Path)}, l.Args...), attr)
	if err != nil {
		return 0, err
	}
	state, err := p.Wait()
	took := time.Since(start)
	if err == nil && !state.Success() {
		err = fmt.Errorf("bench: %s: %s", l.Name, state)
	}
	return took, err
}

// Try runs the command once with its messages kept, and skips it if it fails.
func (l *Launch) Try() {
	if l.Skip != "" {
		return
	}
	messages, err := memfd("stderr of " + l.Name)
	if err != nil {
		l.Skip = err.Error()
		return
	}
	defer messages.Close()
	if _, err := l.Time(messages); err != nil {
		text := make([]byte, 1000)
		n, _ := messages.ReadAt(text, 0)
		l.Skip = fmt.Sprintf("%v: %s", err, text[:n])
	}
}

// memfd is a file in memory, gone when it is closed (memfd_create(2)).
func memfd(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Find looks a program up in the launched processes' PATH, "" if it isn't there.
func Find(name string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if path := dir + "/" + name; syscall.Access(path, 1) == nil {
			return path
		}
	}
	return ""
}
