package doctor

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// seccomp installs a filter that answers getppid(2) with EUCLEAN, and calls it.
// The child shares our memory, so the filter is passed as it lies in the heap,
// where nothing moves (seccomp(2); a filter is the task's own, not the memory's).
func (p *prober) seccomp() {
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // struct seccomp_data begins with the number
	is := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_GETPPID, Jf: 1}
	refuse := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EUCLEAN)}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	filter := &[]unix.SockFilter{load, is, refuse, allow}
	prog := &unix.SockFprog{Len: uint16(len(*filter)), Filter: &(*filter)[0]}
	p.Seccomp = p.do(child{steps: nsexec.Program{
		nsexec.Prctl("PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, nsexec.Int(1), nsexec.Int(0), nsexec.Int(0), nsexec.Int(0)).Named("no new privileges"),
		nsexec.Step{Call: unix.SYS_SECCOMP, Args: []nsexec.Arg{nsexec.Const("SECCOMP_SET_MODE_FILTER", unix.SECCOMP_SET_MODE_FILTER), nsexec.Int(0),
			nsexec.Const("{4 instructions}", uint64(uintptr(unsafe.Pointer(prog))))}}.Named("install a filter"),
		nsexec.Step{Call: unix.SYS_GETPPID}.Named("a call that it refuses").MustFail(unix.EUCLEAN),
	}})
	runtime.KeepAlive(prog)
}
