// Package bench answers one question: what does a start cost, and what of that
// is ours?
//
// # Theory of operation
//
// A time in milliseconds says little on a machine that others use too, so
// nearly everything here is a ratio of two things that were measured side by
// side, in one run and interleaved.
//
// The most telling neighbour is the floor. A plan is a list of system calls;
// FloorSource writes that very list as a C program that makes the same calls
// with the same arguments in both lanes and has no run-time around them. What
// a start takes above its floor is what wolffia itself costs: planning, the Go
// run-time, threads, results. What the floor takes is the kernel's, and only
// fewer calls or cheaper ones can lower it. The floor is built on demand with
// the C compiler of the machine; the product contains no C.
//
// The benchmarks are plain Go benchmarks:
//
//	Start   one start and wait in a running program, by wolffia and by the floor
//	Step    the time of every step of a start, from the child's own result cells
//	Phase   probing, planning, starting and waiting, apart from each other
//	Launch  whole processes: wolffia, the floor, crun, bwrap
//	Many    a thousand containers in one program: does the last cost what the first did?
//
// bench/compare measures the table of goals; see README.md, also for what may
// not be compared.
package bench
