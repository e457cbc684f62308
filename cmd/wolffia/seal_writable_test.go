package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWritable: a binary of our own is sealed although its mode forbids to
// write it: a container's root, which is us, can chmod it.
func TestWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wolffia")
	if err := os.WriteFile(file, nil, 0o555); err != nil {
		t.Fatal(err)
	}
	if !writable(file, os.Getuid()) {
		t.Error("a file of our own with mode 0555 counts as safe")
	}
	if os.Getuid() != 0 && writable("/etc/passwd", os.Getuid()) {
		t.Error("root's /etc/passwd counts as writable")
	}
}
