package userns

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// readFile is os.ReadFile in three system calls for a small file: open(2), read(2) until it returns 0, close(2). It
// leaves out fstat(2) and the runtime's poller, which cost as much again and do nothing for files of /proc and /etc.
// The error is a *fs.PathError.
func readFile(path string) (string, error) {
	fd, err := openRetry(path)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	text, err := readAll(fd)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return string(text), nil
}

func openRetry(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func readAll(fd int) ([]byte, error) {
	text := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		}
		text = text[:len(text)+n]
		if len(text) == cap(text) {
			text = append(text, make([]byte, len(text))...)[:len(text)]
		}
	}
}
