package container

import (
	"fmt"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// probeLimits reads the limits that a plan restores or changes.
func probeLimits(spec *specs.Spec) (Limits, error) {
	names := []string{"RLIMIT_CORE"}
	if spec.Process != nil {
		for _, l := range spec.Process.Rlimits {
			names = append(names, l.Type)
		}
	}
	limits := Limits{}
	for _, name := range names {
		n, ok := RlimitNumber(name)
		if !ok {
			return nil, fmt.Errorf("process.rlimits: no such limit %q", name)
		}
		var l unix.Rlimit
		if err := unix.Prlimit(0, n, nil, &l); err != nil {
			return nil, os.NewSyscallError("prlimit "+name, err)
		}
		limits[name] = Limit{Soft: l.Cur, Hard: l.Max}
	}
	soft, hard, err := nsexec.OriginalNofile()
	if err != nil {
		return nil, os.NewSyscallError("prlimit RLIMIT_NOFILE", err)
	}
	limits["RLIMIT_NOFILE"] = Limit{Soft: soft, Hard: hard}
	return limits, nil
}
