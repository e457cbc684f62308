package userns

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia.dev/nsexec"
	"wolffia.dev/test/filter"
)

// freedomofpress/dangerzone#846 (ptrace), golang/go#62654 (pidfds), youki-dev/youki#2030 (clone3): an outer container's
// filter. Whatever it forbids, a namespace is opened, and the report says by which other way and why.
func TestOpenFiltered(t *testing.T) {
	for _, errno := range []string{"ENOSYS", "EPERM"} {
		again(t, "TestInnerNoPtrace", "WOLFFIA_TEST_FILTER=ptrace="+errno)
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_open="+errno+",kill=EIO")
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_send_signal="+errno+",kill=EIO")
		again(t, "TestInnerNoPidfd", "WOLFFIA_TEST_FILTER=pidfd_open="+errno+",pidfd_send_signal="+errno+",waitid="+errno+",kill=EIO")
		again(t, "TestInnerSilent", "WOLFFIA_TEST_FILTER=waitid="+errno)
	}
	for _, errno := range []string{"ENOSYS", "EPERM", "ENOTTY", "EINVAL"} { // the last two are kernels' before 6.11
		again(t, "TestInnerSilent", "WOLFFIA_TEST_FILTER=ioctl="+errno)
	}
	// glibc's pthread_create(3) of a test with the race detector wants ENOSYS, as every threaded program does
	again(t, "TestInnerNoClone3", "WOLFFIA_TEST_FILTER=clone3=ENOSYS")
	again(t, "TestInnerNoCloneAtAll", "WOLFFIA_TEST_FILTER=clone3=ENOSYS,clone=EPERM")
}

func TestInnerNoPtrace(t *testing.T) {
	inner(t)
	defer leaks(t)()
	_, err := Open(t.Context(), IDMap{{0, uint32(os.Geteuid()), 1}}, IDMap{{0, uint32(os.Getegid()), 1}}, Using(Ptrace))
	var blocked *PtraceError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "Seccomp: 2") || !strings.Contains(err.Error(), "mechanism vm") {
		t.Errorf("alone: %v", err)
	}
	wantFallback(t, "ptrace can't be used here", VM, Ptrace, VM)
}

// wantFallback opens by the first mechanism that works, and looks for the reason in the report.
func wantFallback(t *testing.T, note string, want Mechanism, wish ...Mechanism) {
	t.Helper()
	o := newOpener(t, Using(wish...))
	defer o.Close()
	openOften(t, o, 20)
	openOften(t, o, 1)
	r := o.Report()
	if r.Mechanism != want || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], note) {
		t.Errorf("report %+v, want %s and %q", r, want, note)
	}
	p, err := o.NewPool(3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fd, err := p.OpenRaw(t.Context(), prepare(t, o))
	if err != nil {
		t.Fatal(err)
	}
	closeFD(&fd)
}

func TestInnerNoPidfd(t *testing.T) {
	inner(t)
	defer leaks(t)()
	for _, mechanism := range []Mechanism{VM, Fork} {
		wantFallback(t, "a pipe tells the child of our death", mechanism, mechanism)
	}
	o := newOpener(t, Using(Ptrace, Fork))
	defer o.Close()
	openOften(t, o, 1)
	if r := o.Report(); r.Mechanism != Fork || len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "pidfd") {
		t.Errorf("%+v", r)
	}
	alone := newOpener(t, Using(Ptrace))
	defer alone.Close()
	for range 2 { // told each time
		_, err := alone.OpenRaw(t.Context(), &Maps{})
		if err == nil || !strings.Contains(err.Error(), "no mechanism") || !strings.Contains(err.Error(), "pidfd") {
			t.Errorf("%v", err)
		}
	}
}

// A filter that came after the Opener was made: an error and no hang, though the child can't be killed before our end.
func TestFilteredLater(t *testing.T) {
	again(t, "TestInnerFilteredLater")
}

func TestInnerFilteredLater(t *testing.T) {
	inner(t)
	var openers []*Opener
	for _, mechanism := range Mechanisms() {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 1)
		if err := o.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		openers = append(openers, o)
	}
	if err := filter.Install("pidfd_send_signal=EPERM,kill=EIO"); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(10*time.Second, func() { panic("it waits for a child that it can't kill") })
	defer hangs.Stop()
	for i, o := range openers {
		_, err := o.OpenRaw(t.Context(), prepare(t, o))
		var failure *OpenError
		if !errors.As(err, &failure) || !errors.As(err, new(*nsexec.FilteredError)) || failure.Name != "kill the child" {
			t.Errorf("%s: %v", Mechanisms()[i], err)
		}
	}
}

// What is forbidden makes no difference that a caller could meet.
func TestInnerSilent(t *testing.T) {
	inner(t)
	defer leaks(t)()
	openByAll(t)
}

func TestInnerNoClone3(t *testing.T) {
	inner(t)
	defer leaks(t)()
	for _, mechanism := range []Mechanism{VM, Fork} {
		wantFallback(t, "clone(2) makes the child", mechanism, mechanism)
	}
}

func TestInnerNoCloneAtAll(t *testing.T) {
	inner(t)
	defer leaks(t)()
	o := newOpener(t)
	defer o.Close()
	_, err := o.OpenRaw(t.Context(), prepare(t, o))
	if err == nil || !strings.Contains(err.Error(), "clone") {
		t.Errorf("%v", err)
	}
	alone := newOpener(t, Using(VM))
	defer alone.Close()
	_, err = alone.OpenRaw(t.Context(), prepare(t, alone))
	if !errors.As(err, new(*nsexec.FilteredError)) || strings.Contains(err.Error(), "security module") {
		t.Errorf("the likely cause is known, and no other is to be named: %v", err)
	}
}
