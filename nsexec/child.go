package nsexec

// rawClone makes the system call nr, clone3 or clone, with every signal blocked,
// so that none can be delivered to the child before its program unblocks them,
// one step before its execve. In the parent it returns the child's pid or
// -errno. The child, which has the arena's stack and all our memory, jumps into
// the interpreter at first and never returns.
//
//go:noescape
func rawClone(nr, a1, a2, a3, a4, a5, first uintptr, m *masks) uintptr

// masks are the signal masks over a clone, as rt_sigprocmask(2) has them: what
// is blocked, and what was.
type masks struct{ all, old uint64 }

// Ticks reads the CPU's counter: the TSC on amd64, CNTVCT_EL0 on arm64. Ticks
// are not time: a Clock turns them into nanoseconds.
//
//go:noescape
func Ticks() uint64
