package userns

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia.dev/nsexec"
)

// At most one child is waited for by nobody, and none after Settle: nobody else shares our memory then.
func TestAtMostOneZombie(t *testing.T) {
	defer leaks(t)()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		m, fds := prepare(t, o), make([]int, 20)
		for range 5 {
			if err := o.OpenMany(t.Context(), m, fds); err != nil {
				t.Fatal(err)
			}
			for i := range fds {
				closeFD(&fds[i])
			}
			if n := len(ownChildren(t)); n > 1 {
				t.Errorf("%s: %d children after an opening", mechanism, n)
			}
		}
		if err := o.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if left := ownChildren(t); len(left) > 0 {
			t.Errorf("%s: children after Settle: %v", mechanism, left)
		}
	}
}

// A context that ends while a child is waited for doesn't leave it to nobody: the next opening, or Settle, reaps it.
func TestSettleLater(t *testing.T) {
	defer leaks(t)()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		defer o.Close()
		child := living(t, o)
		o.dying.child = child
		for range 2 {
			if err := o.Settle(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", mechanism, err)
			}
		}
		if err := errors.Join(child.kill(), o.Settle(t.Context())); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		if left := ownChildren(t); len(left) > 0 {
			t.Errorf("%s: children after Settle: %v", mechanism, left)
		}
	}
}

// living is a child of o's mechanism. A traced one mustn't stand stopped, for its tracer's wait would tell of that.
func living(t *testing.T, o *Opener) holder {
	t.Helper()
	use, err := o.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	if use.name != Ptrace {
		child, err := use.maker.make()
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{PidFD: &pidfd}})
	if err != nil {
		t.Fatal(err)
	}
	return &traced{nsexec.Adopt(pid, pidfd)}
}

// ownChildren are the pids of this process's children, zombies included.
func ownChildren(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		missing(t, "CONFIG_PROC_CHILDREN")
	}
	var list []string
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread may be gone
		list = append(list, strings.Fields(string(text))...)
	}
	return list
}
