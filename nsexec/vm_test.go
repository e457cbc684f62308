package nsexec

import "testing"

// Every kernel that wolffia accepts, and the first that it doesn't, has all of pidfd that this package uses: 5.4 was
// the last to add to it.
func TestVMProbePidfd(t *testing.T) {
	defer leaks(t)()
	if err := SupportsPidfd(); err != nil {
		t.Error(err)
	}
}
