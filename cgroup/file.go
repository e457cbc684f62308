package cgroup

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// read gives a file's text. Files of cgroupfs can be polled, so that os.ReadFile
// would put each into the runtime's poller and take it out again: two more calls.
func read(path string) (string, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil {
			return "", &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text.String(), nil
		}
		text.Write(buf[:n])
	}
}

// write makes one write(2): an interface file takes its value in a single one.
func write(path, value string) error {
	fd, err := open(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := ignoringEINTR(func() (int, error) { return unix.Write(fd, []byte(value)) }); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func open(path string, flags int) (int, error) {
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// words are the fields of a file, none if it can't be read.
func words(path string) []string {
	text, err := read(path)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}
