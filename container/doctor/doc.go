// Package doctor tells what a machine lets a container launcher do, and for all
// that it doesn't, why and which command mends it.
//
// # What happens, in which order
//
//	Probe      tries each mechanism in a throw-away child: Facts
//	Pretend    makes the facts those of a worse machine, if that is asked for. Pure
//	Examine    Facts → a Check for each mechanism, a Verdict for each feature. Pure
//	Write      the report as text
//
// # By doing
//
// A mechanism works if it worked: a child was made in a user namespace, its maps
// were written and it mounted something; a seccomp filter was installed and it
// answered a call. Version numbers decide nothing, as distributions take features
// out and put others in. Only *why* something was refused is read from switches
// (/proc/sys, Seccomp: in /proc/self/status), as no call tells it.
//
// Each child is made as a container's first process is (package nsexec): by
// clone3 with the namespaces that it needs, its maps written by us, a program of
// a few steps. It opens and mounts things in its own namespaces and fd table,
// which end with it. Nothing is left behind. What is made outside of them are
// a folder in the user's home for an overlay, and cgroups named wolffia-…,
// both removed at once.
//
// # What it must not do
//
//   - Change a setting, load a module, signal or move another process.
//   - Let anything pretended reach a start: Pretend's facts are only ever examined.
//   - Say nothing: a check that couldn't be made is a check that tells so.
package doctor
