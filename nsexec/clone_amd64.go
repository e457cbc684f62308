package nsexec

// clone2Args are the arguments of clone(2) on amd64: flags, stack, parent_tid,
// child_tid, tls. With CLONE_PIDFD, parent_tid gets the pidfd.
func clone2Args(flags, stack, pidfd, childTID uintptr) [5]uintptr {
	return [5]uintptr{flags, stack, pidfd, childTID, 0}
}
