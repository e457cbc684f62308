package nsexec

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The same program through the assembly and through the reference interpreter.

// differ executes p in both ways, each in an empty folder of its own, which is
// the slot "dir", and compares what every step did.
func differ(t testing.TB, s *Spawner, p Program, faults ...Fault) []Result {
	t.Helper()
	var got [2][]Result
	for i, execute := range []func(map[string]uint64) []Result{
		func(in map[string]uint64) []Result { return assembly(t, s, p, in, faults) },
		func(in map[string]uint64) []Result { return reference(t, p, in, faults) },
	} {
		dir, err := os.MkdirTemp("", "nsexec")
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = execute(map[string]uint64{"dir": uint64(fd), "seven": 7})
		unix.Close(fd)
		os.RemoveAll(dir)
	}
	for i := range p {
		if a, b := outcomeOf(p[i], got[0][i]), outcomeOf(p[i], got[1][i]); a != b {
			t.Errorf("step %d, %s: the assembly %s, the reference %s\n%s", i+1, p[i], a, b, p)
		}
	}
	if a, b := p.Stopped(got[0]), p.Stopped(got[1]); a != b {
		t.Errorf("the assembly stopped at %d, the reference at %d\n%s", a, b, p)
	}
	return got[1]
}

func assembly(t testing.TB, s *Spawner, p Program, inputs map[string]uint64, faults []Fault) []Result {
	t.Helper()
	b := birth{program: p, inputs: inputs}
	if len(faults) > 0 {
		b.fault = &faults[0]
	}
	a, proc, err := s.make(b)
	if err != nil {
		t.Fatal(err)
	}
	a.awaitRelease()
	results := a.results()
	a.free()
	status, err := proc.Wait()
	proc.Close()
	want := 0
	if p.Stopped(results) >= 0 {
		want = 125
	}
	if err != nil || status.Code != want || status.Signal != 0 {
		t.Errorf("the child: %v, %v, want exit %d\n%s", status, err, want, p)
	}
	return results
}

func reference(t testing.TB, p Program, inputs map[string]uint64, faults []Fault) []Result {
	t.Helper()
	results, err := p.Interpret(inputs, faults...)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// outcomeOf is what must be the same. The number of a new fd is chance.
func outcomeOf(s Step, r Result) string {
	switch {
	case !r.Started:
		return "didn't reach it"
	case !r.Ran:
		return "didn't return from it"
	case r.End < r.Start:
		return "has an end before its start"
	case r.Ret >= 0 && (s.Call == unix.SYS_OPENAT || s.Call == unix.SYS_DUP || s.Call == unix.SYS_SOCKET):
		return "got an fd"
	}
	return "got " + ReturnText(r.Ret)
}

// harmless are steps to build programs from. Those with slots need "dir", which
// every program has, or "fd", which the step that opens /dev/zero fills.
func harmless() []Step {
	buf := func(n int) Arg { return Bytes(fmt.Sprintf("%d bytes", n), make([]byte, n)) }
	return []Step{
		Openat(AtCWD(), "/nonexistent", unix.O_RDONLY, 0),
		Openat(Slot("dir"), "folder", unix.O_DIRECTORY, 0),
		Openat(Slot("dir"), "file", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600),
		Mkdirat(Slot("dir"), "folder", 0o755),
		Mkdirat(Slot("dir"), "folder/inner", 0o700),
		Mkdirat(Slot("dir"), "", 0o700),
		Symlinkat("target", Slot("dir"), "link"),
		Faccessat(Slot("dir"), "folder"),
		call(unix.SYS_READ, Slot("fd"), buf(64), Int(64)),
		call(unix.SYS_READ, Slot("fd"), buf(64), Slot("seven")),
		call(unix.SYS_READ, Slot("fd"), Null(), Int(8)), // EFAULT
		call(unix.SYS_WRITE, Slot("fd"), Str("hello"), Int(5)),
		call(unix.SYS_LSEEK, Slot("fd"), Int(3), Int(0)),
		call(unix.SYS_LSEEK, Int(1023), Int(3), Int(0)),
		Dup3(Slot("fd"), Int(700), 0),
		Dup3(Slot("fd"), Int(701), unix.O_CLOEXEC),
		Dup3(Slot("fd"), Slot("fd"), 0), // EINVAL
		Dup3(Int(1000), Int(702), 0),
		call(unix.SYS_FCNTL, Int(700), Const("F_GETFD", unix.F_GETFD)),
		call(unix.SYS_FCNTL, Int(701), Const("F_GETFD", unix.F_GETFD)),
		call(unix.SYS_DUP, Int(700)),
		Close(Int(700)), Close(Int(1001)),
		CloseRange(700, 702, 0),
		Prctl("PR_GET_PDEATHSIG", unix.PR_GET_PDEATHSIG, buf(8)),
		Prctl("PR_GET_KEEPCAPS", unix.PR_GET_KEEPCAPS),
		Prctl("PR_GET_DUMPABLE", unix.PR_GET_DUMPABLE),
		Prctl("no option", 0xffff),
		Umask(0o27), Umask(0o22),
		call(unix.SYS_GETUID),
		Mount("nothing", "/nonexistent", "tmpfs", 0, ""),
		call(9999),
		nanosleep(0),
	}
}

func opening() Step { return Openat(AtCWD(), "/dev/zero", unix.O_RDWR, 0).As("fd").Named("open") }

func TestDifferential(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	file := harmless()[0]
	for name, p := range map[string]Program{
		"empty":                {},
		"all, allowed":         append(Program{opening()}, allowing(harmless())...),
		"must":                 {opening(), file, call(unix.SYS_GETUID)},
		"allow":                {file.Allow("test", unix.ENOENT), call(unix.SYS_GETUID)},
		"allow, fourth":        {file.Allow("test", unix.EPERM, unix.EIO, unix.EACCES, unix.ENOENT), call(unix.SYS_GETUID)},
		"allow another":        {file.Allow("test", unix.EPERM), call(unix.SYS_GETUID)},
		"must fail":            {file.MustFail(unix.ENOENT), call(unix.SYS_GETUID)},
		"must fail, otherwise": {file.MustFail(unix.EPERM), call(unix.SYS_GETUID)},
		"must fail, works":     {opening().MustFail(unix.ENOENT), call(unix.SYS_GETUID)},
		"expect":               {opening(), call(unix.SYS_READ, Slot("fd"), Bytes("", make([]byte, 8)), Slot("seven")).Expect(7), call(unix.SYS_GETUID)},
		"expect more":          {opening(), call(unix.SYS_READ, Slot("fd"), Bytes("", make([]byte, 8)), Slot("seven")).Expect(8), call(unix.SYS_GETUID)},
		"a failed slot":        {file.As("bad").Allow("test", unix.ENOENT), call(unix.SYS_LSEEK, Slot("bad"), Int(0), Int(0))},
		"six arguments":        {call(unix.SYS_PRCTL, Int(unix.PR_GET_DUMPABLE), Int(1), Int(2), Int(3), Int(4), Int(5))},
		"a large result":       {opening(), call(unix.SYS_LSEEK, Slot("fd"), Int(int64(1)<<62), Int(0))},
	} {
		t.Run(name, func(t *testing.T) { differ(t, s, p) })
	}
}

func allowing(p Program) Program {
	for i := range p { // each with the errno that it gives, as the reference finds it
		p[i].Policy = Policy{Allowed: []unix.Errno{unix.ENOENT, unix.EBADF, unix.EINVAL, unix.EFAULT}}
	}
	return p[:len(p)-3]
}

func TestDifferentialFault(t *testing.T) {
	s := NewSpawner()
	p := Program{opening(), call(unix.SYS_GETUID).Allow("test", unix.ENOSYS), call(unix.SYS_READ, Slot("fd"), Bytes("", make([]byte, 8)), Int(8)).Expect(8)}
	for step := range p {
		for _, errno := range []unix.Errno{unix.ENOSYS, unix.EIO, 4095} {
			got := differ(t, s, p, Fault{LaneChild, step, errno})
			if got[step].Errno() != errno {
				t.Errorf("step %d returned %v", step+1, got[step])
			}
		}
	}
}

// program reads two bytes a step: which of the harmless ones, and its policy.
func programOf(data []byte) Program {
	vocabulary := harmless()
	policies := []Policy{
		{Allowed: []unix.Errno{unix.ENOENT, unix.EBADF, unix.EINVAL, unix.EEXIST}}, {Allowed: []unix.Errno{unix.EFAULT}}, {},
		{Exact: true}, {Exact: true, Result: 7}, {Exact: true, Result: -int64(unix.EBADF)}, {Allowed: []unix.Errno{1, 2, 3, 20}},
	}
	p := Program{opening()}
	for i := 0; i+1 < len(data) && len(p) < 40; i += 2 {
		step := vocabulary[int(data[i])%len(vocabulary)]
		step.Policy = policies[int(data[i+1])%len(policies)]
		p = append(p, step)
	}
	return p
}

func FuzzDifferential(f *testing.F) {
	s := NewSpawner()
	for i := range 40 {
		seed := make([]byte, 2+i)
		for k := range seed {
			seed[k] = byte(i*31 + k*(k%2*5+i%7+1))
			if k%2 == 1 {
				seed[k] = byte(k*i) % 7 * (seed[k] & 1) // the lenient policy half of the time
			}
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { differ(t, s, programOf(data)) })
}

func TestInterpretRefuses(t *testing.T) {
	for _, p := range []Program{{Execve("/bin/true", []string{"true"}, nil)}, {call(unix.SYS_EXIT_GROUP)}, {Close(Slot("none"))}} {
		if _, err := p.Interpret(nil); !errors.As(err, new(*InvalidError)) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// The process that interprets keeps its fds, umask and threads' namespaces.
func TestInterpretOwnTables(t *testing.T) {
	defer leaks(t)()
	old := unix.Umask(0o22)
	defer unix.Umask(old)
	p := Program{opening(), Dup3(Slot("fd"), Int(700), 0).Expect(700), Umask(0o77)}
	for range 50 {
		if _, err := p.Interpret(nil); err != nil {
			t.Fatal(err)
		}
	}
	if now := unix.Umask(0o22); now != 0o22 {
		t.Errorf("umask %#o", now)
	}
	if _, err := unix.FcntlInt(700, unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("fd 700: %v", err)
	}
}
