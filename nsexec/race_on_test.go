//go:build race

package nsexec

// raceDetector: this test binary has C code in it, whose pthread_create(3) uses
// clone3 and goes on without it after ENOSYS only.
const raceDetector = true
