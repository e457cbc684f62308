package network

import (
	"fmt"
	"testing"
)

func TestNoneIsValid(t *testing.T) {
	if err := None(AfterMaps).Validate(); err != nil {
		t.Error(err)
	}
}

func ExampleNone() {
	fmt.Print(None(AfterMaps))
	// Output:
	//   1  unshare(CLONE_NEWNET)
	//   2  inet = socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0)
	//   3  ioctl(inet, SIOCSIFFLAGS, {ifr_name="lo", ifr_flags=IFF_UP|IFF_RUNNING})
}
