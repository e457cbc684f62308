package nsexec_test

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// A program is a list that can be read before it runs.
func ExampleProgram() {
	p := nsexec.Program{
		nsexec.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "").Named("mount proc"),
		nsexec.Openat(nsexec.AtCWD(), "/proc/self", unix.O_PATH, 0).As("self").Named("open a folder"),
		nsexec.Fchdir(nsexec.Slot("self")).Named("enter it").Allow("it may be gone", unix.ENOENT),
		nsexec.Sethostname("wolffia").Named("hostname").MustFail(unix.EPERM),
	}
	fmt.Print(p)
	// Output:
	//   1  mount("proc", "/proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, NULL)
	//   2  self = openat(AT_FDCWD, "/proc/self", O_PATH|O_CLOEXEC, 00)
	//   3  fchdir(self) or ENOENT
	//   4  sethostname("wolffia", 7) == EPERM
}

// The smallest start: a program in a new user namespace, without a map.
func ExampleSpawner_Start() {
	plan := &nsexec.Plan{
		Host: []nsexec.HostStep{
			{Name: "make the child", Op: nsexec.OpClone, Flags: unix.CLONE_NEWUSER},
			{Name: "wait for execve", Op: nsexec.OpRelease},
		},
		Child: nsexec.Program{
			nsexec.CloseRange(3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC).Named("close all else"),
			nsexec.UnblockSignals().Named("unblock signals"),
			nsexec.Execve("/bin/sh", []string{"sh", "-c", "exit 3"}, nil).Named("execute"),
		},
	}
	process, report, err := nsexec.NewSpawner().Start(context.Background(), plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer process.Close()
	status, err := process.Wait()
	fmt.Println(status, err, len(report.Child))
	// Output: exit 3 <nil> 3
}
