package nsexec

// rawClone makes the system call nr: clone3 or clone. In the parent
// it returns the child's pid or -errno. The child, which has the arena's stack
// and all our memory, jumps into the interpreter at first and never returns.
//
//go:noescape
func rawClone(nr, a1, a2, a3, a4, a5, first uintptr) uintptr

// Ticks reads the CPU's counter: the TSC on amd64, CNTVCT_EL0 on arm64. Ticks
// are not time: a Clock turns them into nanoseconds.
//
//go:noescape
func Ticks() uint64
