package userns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Questions to what is no user namespace.
func TestNotANamespace(t *testing.T) {
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	net, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	for name, ask := range map[string]func(int) error{
		"Parent":   func(fd int) error { _, err := Parent(fd); return err },
		"OwnerUID": func(fd int) error { _, err := OwnerUID(fd); return err },
		"ReadMaps": func(fd int) error { _, _, err := ReadMaps(t.Context(), fd); return err },
	} {
		for _, file := range []*os.File{null, net} {
			var typed *NamespaceError
			var step *nsexec.StepError
			if err := ask(int(file.Fd())); !errors.As(err, &typed) && !errors.As(err, &step) {
				t.Errorf("%s of %s: %v", name, file.Name(), err)
			}
		}
	}
	if _, err := ID(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("ID of nothing: %v", err)
	}
}

// What can be known to be wrong is told before a child is made: filtered makes any attempt visible.
func TestOpenBadInput(t *testing.T) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	own := IDMap{{0, gid, 1}}
	foreign := IDMap{{0, 3_000_000_000, 1000}}
	o := newOpener(t)
	o.fault = failing(actMake, unix.EBADMSG) // an attempt would end with it
	tests := map[string]struct {
		uid    IDMap
		reason Reason
		word   string
	}{
		"nil":          {nil, ReasonEmpty, "at least one line"},
		"empty":        {IDMap{}, ReasonEmpty, "at least one line"},
		"zero size":    {IDMap{{0, uid, 0}}, ReasonZeroLength, "length is 0"},
		"wrap inside":  {IDMap{{4294967290, uid, 10}}, ReasonWrap, "4294967294"},
		"wrap outside": {IDMap{{0, 4294967290, 10}}, ReasonWrap, "4294967294"},
		"overlap":      {IDMap{{0, uid, 1}, {0, uid + 1, 1}}, ReasonOverlap, "overlaps line 1"},
		"341 lines":    {lines(341, 1), ReasonTooManyLines, "340"},
		"4096 bytes":   {sized(t, 4096), ReasonTooLong, "4095"},
	}
	for name, test := range tests {
		_, err := o.Open(t.Context(), test.uid, own)
		wantPlanError(t, fmt.Errorf("%s: %w", name, err), test.reason, test.word)
		_, err = o.Open(t.Context(), IDMap{{0, uid, 1}}, test.uid)
		wantPlanError(t, fmt.Errorf("gid, %s: %w", name, err), test.reason)
	}
	if uid != 0 {
		_, err := o.Open(t.Context(), foreign, own)
		wantPlanError(t, err, ReasonNotOurs, "not delegated")
		_, err = o.Open(t.Context(), IDMap{{0, uid, 1}}, foreign)
		wantPlanError(t, err, ReasonNotOurs)
	}
	if _, err := o.Open(t.Context(), IDMap{{0, uid, 1}}, own); !errors.Is(err, unix.EBADMSG) {
		t.Errorf("maps that are right: %v", err)
	}
	_, err := o.OpenBatch(t.Context(), IDMap{{0, uid, 1}}, own, -1)
	wantPlanError(t, err, ReasonBadRequest, "-1 user namespaces")
	if _, err := Open(t.Context(), IDMap{{0, uid, 1}}, own, Using("rfork")); !strings.Contains(fmt.Sprint(err), "rfork") {
		t.Errorf("no such mechanism: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.Open(t.Context(), IDMap{{0, uid, 1}}, own); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A context that has ended, and one that ends while a helper hangs.
func TestOpenContext(t *testing.T) {
	defer leaks(t)()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		if _, err := o.OpenRaw(ended, prepare(t, o)); !errors.Is(err, errEnough) {
			t.Errorf("%s: %v", mechanism, err)
		}
		m := *prepare(t, o)
		m.UIDWriter.Helper = script(t, "exec sleep 1000")
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := o.OpenRaw(soon, &m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, with a helper that hangs: %v", mechanism, err)
		}
		cancel()
		m.UIDWriter.Helper = script(t, "")
		var nothing *NoMapError
		if _, err := o.OpenRaw(t.Context(), &m); !errors.As(err, &nothing) {
			t.Errorf("%s, with a helper that does nothing: %v", mechanism, err)
		}
	}
}

var errEnough = errors.New("enough")

// script is a program of the shell, to stand where newuidmap does.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "newuidmap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// newuidmap and newgidmap run at once: each of these waits for the other one.
func TestHelpersAtOnce(t *testing.T) {
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	m, dir := *prepare(t, o), t.TempDir()
	m.UIDWriter.Helper = script(t, "cd "+dir+"; touch uid; until [ -e gid ]; do sleep 0.01; done")
	m.GIDWriter.Helper = script(t, "cd "+dir+"; touch gid; until [ -e uid ]; do sleep 0.01; done")
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var nothing *NoMapError // and neither writes a map
	if _, err := o.OpenRaw(soon, &m); !errors.As(err, &nothing) {
		t.Errorf("%v", err)
	}
}
