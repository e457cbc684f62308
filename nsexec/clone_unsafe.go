package nsexec

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// header is what clone3 reads and writes. It lies in the arena because a
// goroutine's stack may move while the kernel holds a pointer into it.
type header struct {
	args  cloneArgs
	masks masks
	tid   uint32 // non-zero while the child shares our memory (CLONE_CHILD_CLEARTID)
	pidfd int32
}

// cloneArgs is struct clone_args of linux/sched.h, CLONE_ARGS_SIZE_VER2 (5.7).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal     uint64
	stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// inject makes a step return errno without a call.
func (a *arena) inject(step int, errno unix.Errno) {
	a.code[a.skip+step].inject = -int64(errno)
}

// cancel makes every step that the child hasn't begun fail: it ends by itself
// at its next one. For a child that can't be signalled.
func (a *arena) cancel() {
	a.canceled.Store(true)
	for i := range a.code {
		atomic.StoreInt64(&a.code[i].inject, -int64(unix.ECANCELED))
		atomic.StoreUint64(&a.code[i].exact, 0)
	}
}

// prepare fills the clone arguments. exit_signal is 0: until its execve the
// child causes no SIGCHLD and no plain wait4(-1) reaps it (wait(2), __WALL).
func (a *arena) prepare(flags uint64, cgroup int) {
	a.head.masks.all = ^uint64(0)
	a.head.tid = 1
	a.head.pidfd = -1
	a.head.args = cloneArgs{
		flags:    flags | unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CHILD_CLEARTID | unix.CLONE_CLEAR_SIGHAND,
		pidfd:    uint64(address(&a.head.pidfd)),
		childTID: uint64(address(&a.head.tid)),
		stack:    uint64(uintptr(unsafe.Pointer(&a.mem[len(a.mem)-stackSize]))), stackSize: stackSize,
		cgroup: uint64(cgroup), // read with CLONE_INTO_CGROUP alone
	}
}

// clone makes the child, which executes the arena's program and nothing else.
func (a *arena) clone() (pid int, err error) {
	return cloneResult(rawClone(unix.SYS_CLONE3, address(&a.head.args), unsafe.Sizeof(a.head.args), 0, 0, 0, address(&a.code[0]), &a.head.masks))
}

// clone2 is clone by clone(2), whose flags are the low 32 bits of clone3's. It
// gets the stack's end, clone3 its beginning.
func (a *arena) clone2() (pid int, err error) {
	g := &a.head.args
	x := clone2Args(uintptr(uint32(g.flags)), // CLONE_CLEAR_SIGHAND falls off
		uintptr(g.stack+g.stackSize), uintptr(g.pidfd), uintptr(g.childTID))
	return cloneResult(rawClone(unix.SYS_CLONE, x[0], x[1], x[2], x[3], x[4], address(&a.code[0]), &a.head.masks))
}

func cloneResult(r uintptr) (pid int, err error) {
	if isErrno(int64(r)) {
		return 0, unix.Errno(-int64(r))
	}
	return int(r), nil
}

// clone3Exists calls clone3 with arguments that no kernel takes: EINVAL shows
// that it is there, and not answered by a filter.
func clone3Exists() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}

// awaitRelease blocks until the child shares our memory no longer. The wake-up
// of CLONE_CHILD_CLEARTID is not FUTEX_PRIVATE, so neither is the wait. Kernels
// before 5.17 leave the word alone when the child dumps core: now and then the
// pidfd is asked too.
func (a *arena) awaitRelease() {
	patience := unix.NsecToTimespec(int64(time.Second))
	for {
		tid := atomic.LoadUint32(&a.head.tid)
		if tid == 0 {
			return
		}
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, address(&a.head.tid), 0 /* FUTEX_WAIT */, uintptr(tid),
			uintptr(unsafe.Pointer(&patience)), 0, 0)
		if errno == unix.ETIMEDOUT && a.head.pidfd >= 0 && pollIn(int(a.head.pidfd), 0) == nil {
			return
		}
	}
}
