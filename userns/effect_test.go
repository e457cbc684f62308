package userns

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// child is a process in a new user namespace without maps: cat, which ends when its standard input does.
type child struct {
	process *os.Process
	stdin   *os.File
}

func newChild() (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	echo, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	defer echo.Close()
	process, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{
		Files: []*os.File{r, out}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	out.Close()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	// In the midst of execve(2), when StartProcess returns, /proc/PID belongs to root for a moment.
	_, err = w.Write([]byte{'x'})
	if err == nil {
		_, err = echo.Read(make([]byte, 1))
	}
	return &child{process, w}, err
}

func (c *child) end() error {
	err := c.stdin.Close()
	_, waitErr := c.process.Wait()
	return errors.Join(err, waitErr)
}

func (c *child) file(name string) string { return fmt.Sprintf("/proc/%d/%s", c.process.Pid, name) }

// write is one write(2), as the kernel wants it.
func (c *child) write(name, text string) error {
	fd, err := unix.Open(c.file(name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

func startChild(t *testing.T) *child {
	t.Helper()
	c, err := newChild()
	if err != nil {
		missing(t, "user namespaces for this user: "+err.Error())
	}
	t.Cleanup(func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// writeBy writes a map as planned.
func (c *child) writeBy(w Writer, name string, m IDMap) error {
	if w.Direct() {
		return c.write(name, m.String())
	}
	argv := append([]string{filepath.Base(w.Helper), fmt.Sprint(c.process.Pid)}, m.Fields()...)
	process, err := os.StartProcess(w.Helper, argv, &os.ProcAttr{Files: []*os.File{nil, os.Stderr, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := process.Wait()
	if err == nil && !state.Success() {
		err = errors.New(w.Helper + ": " + state.String())
	}
	return err
}

func (c *child) apply(m Mapping) error {
	if m.DenySetgroups {
		if err := c.write("setgroups", "deny"); err != nil {
			return err
		}
	}
	return errors.Join(c.writeBy(m.UIDWriter, "uid_map", m.UID), c.writeBy(m.GIDWriter, "gid_map", m.GID))
}

// The plan for whoever runs this test, on this machine, is what the kernel takes and shows: golang/go#10626 (single),
// shadow-maint/shadow#141 (as root), golang/go#50098 (as a user with sub-ids).
func TestPlanIsAccepted(t *testing.T) {
	f, err := Probe(ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{Auto, Single, Host} {
		t.Run(string(mode), func(t *testing.T) {
			m, err := PlanMaps(Request{Mode: mode}, f)
			if err != nil {
				missing(t, err.Error())
			}
			c := startChild(t)
			if err := c.apply(m); err != nil {
				t.Fatalf("%s: %v", show(m), err)
			}
			c.wantMap(t, "uid_map", m.UID)
			c.wantMap(t, "gid_map", m.GID)
			if got, err := os.ReadFile(c.file("setgroups")); err != nil || strings.TrimSpace(string(got)) != m.Setgroups {
				t.Errorf("setgroups reads %q, %v; want %s", got, err, m.Setgroups)
			}
		})
	}
}

func (c *child) wantMap(t *testing.T, name string, want IDMap) {
	t.Helper()
	text, err := os.ReadFile(c.file(name))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseIDMap(string(text))
	if err != nil || got.String() != want.String() {
		t.Errorf("%s reads %q, %v; want %q", name, got, err, want)
	}
}

// opencontainers/runtime-spec#693: what Validate refuses is what the kernel refuses, at the border.
func TestRootKernelLimits(t *testing.T) {
	rootOnly(t)
	if size := os.Getpagesize(); size != MaxBytes+1 {
		missing(t, fmt.Sprintf("pages of 4096 bytes (here %d)", size))
	}
	for _, c := range []struct {
		name string
		m    IDMap
	}{
		{"340 lines", lines(340, 1)},
		{"341 lines", lines(341, 1)},
		{"324 long lines", longLines()},
		{"4095 bytes", sized(t, 4095)},
		{"4096 bytes", sized(t, 4096)},
		{"last id", IDMap{{4294967294, 4294967294, 1}}},
		{"past the last id", IDMap{{4294967295, 4294967295, 1}}},
		{"wrap", IDMap{{0, 4294967290, 10}}},
		{"overlap inside", IDMap{{0, 10, 2}, {1, 20, 1}}},
		{"overlap outside", IDMap{{0, 10, 2}, {5, 11, 1}}},
		{"zero length", IDMap{{0, 10, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kernel := startChild(t).write("uid_map", c.m.String())
			if ours := c.m.Validate(); (kernel == nil) != (ours == nil) {
				t.Errorf("the kernel says %v, Validate says %v", kernel, ours)
			}
			if kernel != nil && !errors.Is(kernel, unix.EINVAL) {
				t.Errorf("got %v, want EINVAL", kernel)
			}
		})
	}
}

// sized is a map whose text has n bytes.
func sized(t *testing.T, n int) IDMap {
	t.Helper()
	m := IDMap{}
	for i := uint32(0); n-len(m.String()) > 40; i++ {
		m = append(m, Extent{1000 + i, 100000 + 2*i, 1})
	}
	for inside := uint32(1); inside < 1<<31; inside *= 10 {
		for outside := uint32(1); outside < 1<<31; outside *= 10 {
			rest := IDMap{{2000000000, 2000000000, 1}, {inside * 2, outside * 2, 1}}
			if len(m.String())+len(rest.String()) == n {
				return append(m, rest...)
			}
		}
	}
	t.Fatalf("no map of %d bytes", n)
	return nil
}

// podman-container-tools/podman#8816: in a namespace of two extents the kernel refuses a line that crosses them, with
// EPERM, and takes the plan, which is split.
func TestRootNestedSplit(t *testing.T) {
	rootOnly(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1, HostID: 100000, Size: 65536}}
	process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{
		Env: []string{"WOLFFIA_TEST_NESTED=1"}, Files: []*os.File{nil, w, os.Stderr},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true},
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if state, waitErr := process.Wait(); err != nil || waitErr != nil || !state.Success() {
		t.Fatalf("%s: %v, %v", state, err, waitErr)
	}
	want := "unsplit: operation not permitted\nplanned: 0 0 1;1 1 99;\ninside: 0 0 1;1 1 99;\n"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// nestedMain is the process of TestRootNestedSplit inside its namespace.
func nestedMain() {
	if err := nestedReport(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func nestedReport() error {
	f, err := Probe(ProbeOptions{})
	if err != nil {
		return err
	}
	req := Request{Mode: Spec, UID: IDMap{{0, 0, 100}}, GID: IDMap{{0, 0, 100}}}
	m, err := PlanMaps(req, f)
	if err != nil {
		return err
	}
	c, err := newChild()
	if err != nil {
		return err
	}
	fmt.Println("unsplit:", c.write("uid_map", req.UID.String()))
	fmt.Println("planned:", strings.ReplaceAll(m.UID.String(), "\n", ";"))
	err = c.apply(m)
	text, readErr := os.ReadFile(c.file("uid_map"))
	inside, parseErr := ParseIDMap(string(text))
	fmt.Println("inside:", strings.ReplaceAll(inside.String(), "\n", ";"))
	return errors.Join(err, readErr, parseErr, c.end())
}
