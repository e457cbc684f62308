package nsexec

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Interpret is the reference interpreter: it defines what a program means, and
// the assembly is tested against it. It makes the program's calls itself, on a
// thread of its own that is thrown away, with a copy of our fd table and of our
// working directory and umask. What a call changes beyond these it changes for
// this process: give it harmless programs only. It refuses execve and
// exit_group. Of the faults, those of the child lane count.
//
// Like a child it stops at the first result that a step's policy doesn't
// accept; the steps behind it aren't Started.
func (p Program) Interpret(inputs map[string]uint64, faults ...Fault) ([]Result, error) {
	if err := p.validateInProcess(inputs); err != nil {
		return nil, err
	}
	var results []Result
	var err error
	onOwnThread(func() {
		if err = unix.Unshare(unix.CLONE_FILES | unix.CLONE_FS); err != nil {
			err = fmt.Errorf("nsexec: unshare(CLONE_FILES|CLONE_FS): %w", err)
			return
		}
		results = p.interpret(inputs, faults)
	})
	return results, err
}

func (p Program) validateInProcess(inputs map[string]uint64) error {
	names := make([]string, 0, len(inputs))
	for name := range inputs {
		names = append(names, name)
	}
	for i, s := range p {
		if s.Call == unix.SYS_EXECVE || s.Call == unix.SYS_EXIT_GROUP {
			return &InvalidError{Index: i, Step: s.Name, Reason: s.Call.String() + " would end this process"}
		}
	}
	return p.Validate(names...)
}

// interpret executes the steps in order: slots in, call, slot out, policy.
func (p Program) interpret(inputs map[string]uint64, faults []Fault) []Result {
	results := make([]Result, len(p))
	slots := make(map[string]uint64, len(inputs))
	for name, v := range inputs {
		slots[name] = v
	}
	for i, s := range p {
		r := &results[i]
		r.Started, r.Start = true, Ticks()
		if errno := injected(faults, i); errno != 0 {
			r.Ret = -int64(errno)
		} else {
			r.Ret = rawCall(s, slots)
		}
		r.Ran, r.End = true, Ticks()
		if s.Save != "" {
			slots[s.Save] = uint64(r.Ret)
		}
		if !s.Policy.Accepts(r.Ret) {
			break
		}
	}
	return results
}

func injected(faults []Fault, step int) unix.Errno {
	for _, f := range faults {
		if f.at(LaneChild, step) {
			return f.Errno
		}
	}
	return 0
}

// onOwnThread runs f on a thread that ends afterwards, whatever f did to it.
// The main thread can't end, and /proc/self shows its fds: it waits instead.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with us
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}
