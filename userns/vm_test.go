package userns

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What kernels differ in: PIDFD_GET_USER_NAMESPACE came with 6.11, and before that the fd comes from /proc.
func TestVMOpen(t *testing.T) {
	TestOpen(t)
	TestPool(t)
	TestPoolWithHelpers(t)
	TestVanished(t)
	TestAtMostOneZombie(t)
	TestOwnerKilled(t)
}

func TestRootVMOpen(t *testing.T) {
	TestOpen(t)
	TestPool(t)
}

const yama = "/proc/sys/kernel/yama/ptrace_scope"

// Under each setting of Yama (Documentation/admin-guide/LSM/Yama.rst) an ordinary user opens namespaces by vm and fork;
// 3, which can't be taken back, shuts out ptrace, and that is told.
func TestRootVMYama(t *testing.T) {
	for _, scope := range []string{"0", "1", "2", "3"} {
		if err := os.WriteFile(yama, []byte(scope), 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInnerYama$", "-test.v")
		cmd.Env = append(os.Environ(), "WOLFFIA_TEST_INNER=1")
		cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestInnerYama") {
			t.Errorf("ptrace_scope %s: %v\n%s", scope, err, out)
		}
	}
}

func TestInnerYama(t *testing.T) {
	inner(t)
	defer leaks(t)()
	scope := sysctl("kernel/yama/ptrace_scope")
	for _, mechanism := range []Mechanism{VM, Fork} {
		o := newOpener(t, Using(mechanism))
		openOften(t, o, 1)
		o.Close()
	}
	o := newOpener(t, Using(Ptrace))
	defer o.Close()
	fd, err := o.OpenRaw(t.Context(), prepare(t, o))
	closeFD(&fd)
	if scope != "3" {
		if err != nil {
			t.Errorf("ptrace_scope %s: %v", scope, err)
		}
		return
	}
	var blocked *PtraceError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "kernel.yama.ptrace_scope is 3") {
		t.Errorf("ptrace_scope 3: %v", err)
	}
	wantFallback(t, "Yama", VM, Ptrace, VM)
}
