package userns

// # The mechanism fork
//
// The steps of the mechanism vm with a child that shares nothing: clone3(2)
// without CLONE_VM and CLONE_FILES, which is fork(2) with namespaces. The kernel
// copies our page tables and our fd table only to throw the copies away, and
// every page that we write meanwhile faults. It is here as a point of reference,
// and for a sandbox that forbids sharing memory. While the child lives, some
// tens of µs, it holds a copy of every fd of ours: a pipe's end or a socket that
// is closed just then closes a moment later.
