// Package nsexec starts a process in new namespaces by a program of system
// calls: a list that is made first, can be printed, and is then executed by a
// child that does nothing else.
//
// # What happens, in which order
//
// A [Plan] has two lanes. [Spawner.Start] executes the host lane in Go, step by
// step; one of its steps, OpClone, makes the child, which executes the child
// lane, a [Program], in a few lines of assembly (child_amd64.s, child_arm64.s).
//
//	host                                child
//	pipe2: the lifeline
//	clone3 ───────────────────────────▶ PR_SET_PDEATHSIG, RLIMIT_CORE 0
//	                                    close_range: no fd but the lifeline
//	write uid_map, gid_map
//	open gate "maps" ─────────────────▶ read(lifeline)
//	                                    mounts, pivot_root, …
//	open gate "credentials" ──────────▶ read(lifeline)
//	                                    ids, capabilities
//	                                    PR_SET_PDEATHSIG, is the launcher alive?
//	                                    limits back, signals unblocked
//	futex: memory released ◀─────────── execve
//	PR_SET_DUMPABLE
//
// A program has no branches. A step may take the result of an earlier one (a
// slot), and its [Policy] says which results let the program go on; the first
// that doesn't ends the child with exit_group(125), its result cell telling why.
// [Program.Interpret] defines in Go what a program means.
//
// # Memory
//
// The child is made with CLONE_VM: it shares the launcher's memory. Copying
// page tables, as fork(2) does, costs time that grows with the launcher's
// heap; sharing costs the same whatever the heap. Unlike vfork(2)
// the launcher isn't stopped meanwhile, as it must write the child's id maps.
//
// What the child touches lies in one mapping outside the Go heap, the arena:
// encoded steps, strings, structures, result cells, a stack. No goroutine's
// stack may be pointed to, since those move. The launcher writes the arena
// before the clone and reads it after the release; in between it belongs to the
// child. CLONE_CHILD_CLEARTID has the kernel clear a word in it, and wake a
// futex, when the child gives the memory up, at execve or at its death; the
// result cells tell which, since a failed execve wrote its errno. Not before
// that is the arena unmapped.
//
// # What the child must not do
//
//   - Run Go: it has no goroutine, no g, no stack to grow. The assembly uses
//     registers and the arena only.
//   - Run a signal handler, for the same reason. All signals are blocked over
//     the clone, CLONE_CLEAR_SIGHAND (5.5) resets the handlers, and the program
//     unblocks signals just before its execve. What the launcher ignores stays
//     ignored, as over any execve.
//   - Dump core: the dump would hold the launcher's memory. RLIMIT_CORE is 0
//     until just before execve.
//   - Enter a namespace that others are in already: see "Threat model".
//
// # File descriptors
//
// The fd table is a copy, not shared. The child therefore also holds what other
// goroutines have open, above all the write ends of its own and of other starts'
// lifelines: close_range must be among its first steps, or a gate never sees
// end of file. The launcher keeps the write end, until the child executes, and
// the pidfd, which belongs to the [Process]. Everything else that a start opens
// it closes before it returns.
//
// What the child makes inside its namespaces for somebody outside, it hands over
// on a socket pair (OpSocket, [Sendfds]) to a [Network], which OpNetwork starts.
// Behind OpNetwork neither end is the launcher's: a child that dies is the end of
// file that the Network sees.
//
// # Gates and the death of the launcher
//
// A gate is a read of one byte from the lifeline. If the launcher dies, the
// read gives 0 bytes and the child ends. Between gates PR_SET_PDEATHSIG ends
// it. That setting has three gaps. It does nothing if the launcher died before
// the call: the next gate, or [CheckLifeline] behind the last one, notices. It
// is cleared by a change of credentials: it is set again after them. And it
// follows the thread that made the child, not the process: a [Spawner] clones on
// one thread that never ends.
//
// # exit_signal is 0
//
// A child that hasn't executed its program yet sends no SIGCHLD, and no
// wait4(-1) elsewhere in the launcher reaps it: only waits with __WALL see it
// (wait(2)). execve sets the signal to SIGCHLD. From then on a wait4(-1) may
// steal the exit status, and [Process.Wait] gives ErrDone; it can never reach
// another process, since it holds a pidfd.
//
// # The dumpable flag
//
// The flag belongs to the memory (PR_SET_DUMPABLE). A child that changes its
// kernel-side ids clears it, for the launcher too, and then /proc/CHILD of every
// child that shares the memory belongs to root: an unprivileged launcher gets
// EACCES from the next uid_map. So the Spawner keeps a window: a start holds it
// for reading from its clone to the gate "maps", and for writing from the gate
// "credentials" to OpDumpable, which sets the flag again. Starts overlap in all
// but these.
//
// # Threat model of the shared memory
//
// The child executes nothing but the list; nothing from the container's image
// runs before execve, and execve gives it memory of its own. Who could read the
// launcher's memory through the child are processes that may ptrace it: those in
// its own new namespaces, where there are none yet, and the launcher's user, who
// may ptrace the launcher as well. A child that joins namespaces where others
// are already must not be made by this package while the launcher is dumpable.
// /proc/self/exe of the child is the launcher's binary until execve: a program
// must never execute a path that leads there.
//
// # Where less is there
//
// A seccomp filter above us, an outer container's, may forbid what the kernel
// has. Without clone3 the child is made by clone(2) and resets the handlers
// itself; without waitid(P_PIDFD) it is reaped by number once its pidfd tells of
// its end, and [Process.Weak] says so. [Report].Notes names what was done. What
// can't be made up for is a typed error: a process is never signalled by number.
// [ProbePidfd] tells which part is missing.
//
// # Ticks are not time
//
// Each step's start and end are read from the CPU's counter (TSC, CNTVCT_EL0),
// which costs no system call. A [Clock] relates ticks to CLOCK_MONOTONIC over
// the whole start. The counter's resolution is a few ns to 40 ns; on a machine
// whose CPUs' counters differ, a step that moved between CPUs is wrong by that
// difference.
package nsexec
