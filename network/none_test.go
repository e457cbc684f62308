package network

import (
	"fmt"
	"testing"
)

func TestNoneIsValid(t *testing.T) {
	if err := None().Validate(); err != nil {
		t.Error(err)
	}
}

func ExampleNone() {
	fmt.Print(None())
	// Output:
	//   1  unshare(CLONE_NEWNET)
	//   2  inet = socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0)
	//   3  ioctl(inet, SIOCSIFFLAGS, {ifr_name="lo", ifr_flags=IFF_UP|IFF_RUNNING})
}
