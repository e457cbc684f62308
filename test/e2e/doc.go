// Package e2e tests bin/wolffia as people use it: each test starts containers with the built binary and looks at
// what the kernel shows of them, from inside (/proc, mounts, ids, files) and from outside (exit codes, signals,
// what is left). It has no code but tests, and its files follow the kernel's questions:
//
//	maps_test.go      who am I?
//	root_test.go      what is "/"?
//	mounts_test.go    what else is mounted?
//	idmap_test.go     under whose ids do its files appear?
//	security_test.go  what can the program reach?
//	hostile_test.go   where can a root lead that someone else wrote?
//	exe_test.go       what becomes of the launcher's own binary?
//	process_test.go   how does it start and end?
//	signals_test.go   which signals does it get?
//	filter_test.go    what if an outer sandbox forbids a call?
//	input_test.go     what is said when it can't be had?
//	explain_test.go   what is planned, before anything runs?
//	doctor_test.go    what does this machine let us do?
//	bundle_test.go    the files of crun spec and runc spec
//	vm_test.go        what differs on other kernels?
//
// Most run as an ordinary user with subordinate ids; those named TestRoot… as root, and TestVM… and TestRootVM… in
// virtual machines (test/vm.sh). The environment says what to test: WOLFFIA_BIN (else it is built) and WOLFFIA_ROOTFS,
// a busybox root of the user's own (else it is made).
//
// Programs that a shell can't be are roles of the test binary itself (roles_test.go), which is executed again with
// WOLFFIA_E2E_ROLE set, outside a container or, bound into a view of this machine, inside.
//
// The test process is a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): whatever outlives a launcher becomes its
// child. TestMain finds it at the end, with every mount, file and fd that was not there before.
package e2e
