package userns

// # The mechanism vm
//
// A child that shares our memory and our fd table costs neither a copy of page
// tables nor one of fds, and a child that is one system call long needs no
// program.
//
//	parent                                              child (assembly only)
//	clone3(CLONE_VM|CLONE_FILES|CLONE_NEWUSER|
//	       CLONE_PIDFD|CLONE_CLEAR_SIGHAND) ──────────▶ ppoll(a pidfd of the parent)
//	open /proc/PID/uid_map, setgroups, gid_map
//	ioctl(pidfd, PIDFD_GET_USER_NAMESPACE)
//	pidfd_send_signal(pidfd, SIGKILL) ────────────────▶ †
//	write uid_map, setgroups, gid_map
//	waitid(P_PIDFD) of the child before
//
// Four things make it fast and keep it safe:
//
//   - Order. The maps can be written when the child is dead: an open uid_map
//     holds the namespace, not the process (proc_id_map_open(),
//     fs/proc/base.c). So the child is killed as soon as everything is open,
//     and dies while we write.
//   - Laziness. When a killed process is dead is the scheduler's choice, and on
//     a busy machine it takes longer than everything else. So nobody waits for
//     it: each opening reaps the child of the one before, and there is at most
//     one zombie. Opener.Settle waits.
//   - Identity. Paths below /proc go by a number. A successful
//     pidfd_send_signal(2) behind the opens proves that the number was our
//     child's all the time: nobody had reaped it.
//   - Our death. The child polls a pidfd of ours. Whatever kills us, the poll
//     returns and the child exits. No PR_SET_PDEATHSIG, which goes by threads,
//     and no pipe, whose other end the shared fd table would keep open.
//
// The child is nsexec.Noop. A *nsexec.Spawner of the same process whose children
// clear the dumpable flag may make openings of an ordinary user fail with EACCES
// for that moment: use one process for one or the other.
//
// PIDFD_GET_USER_NAMESPACE came with Linux 6.11 (5b08bd408534); before, the fd
// is opened as /proc/PID/ns/user.
