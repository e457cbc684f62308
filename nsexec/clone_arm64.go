package nsexec

// clone2Args are the arguments of clone(2) on arm64: flags, stack, parent_tid,
// tls, child_tid. With CLONE_PIDFD, parent_tid gets the pidfd.
func clone2Args(flags, stack, pidfd, childTID uintptr) [5]uintptr {
	return [5]uintptr{flags, stack, pidfd, 0, childTID}
}
