package container

import (
	"errors"
	"os"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// Whichever of the launcher's steps fails, the error names it, the mounts of the host are as before and no fd is left;
// and without a failure it works in the same process.
func TestRootIDMapFaults(t *testing.T) {
	root := os.Getenv("WOLFFIA_ROOTFS")
	if os.Geteuid() != 0 || root == "" {
		t.Skip("runs in the run as root, with WOLFFIA_ROOTFS")
	}
	plan := idmapPlan(t, root)
	s := nsexec.NewSpawner()
	startOnce(t, s, plan)
	mounts, fds := readText(t, "/proc/self/mountinfo"), openFDs(t)
	for i, h := range plan.Host {
		faulty := *plan
		faulty.Fault = &nsexec.Fault{Lane: nsexec.LaneHost, Step: i, Errno: unix.EIO}
		_, err := Start(t.Context(), s, &faulty)
		var step *nsexec.StepError
		if !errors.As(err, &step) || step.Name != h.Name || !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", h.Name, err)
		}
		if now := readText(t, "/proc/self/mountinfo"); now != mounts {
			t.Errorf("%s: mounts were\n%sand are\n%s", h.Name, mounts, now)
		}
		if now := openFDs(t); now != fds {
			t.Errorf("%s: %d fds, before %d", h.Name, now, fds)
		}
	}
	startOnce(t, s, plan)
}

// idmapPlan has a mount with the container's map and one with a map of its own.
func idmapPlan(t *testing.T, root string) *Plan {
	t.Helper()
	own := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 1000500, Size: 10}}
	spec, o := DefaultSpec(), &Options{Root: Root{Kind: RootReadOnly, Path: root}, Map: userns.Request{Mode: userns.Auto}, AnyUser: true}
	spec.Process.Args = []string{"true"}
	spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/tmp", Source: t.TempDir(), Options: []string{"rbind", "ridmap"}},
		specs.Mount{Destination: "/home", Source: t.TempDir(), Options: []string{"bind", "idmap"}, UIDMappings: own, GIDMappings: own})
	facts, err := Probe(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Compile(spec, o, facts)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func startOnce(t *testing.T, s *nsexec.Spawner, plan *Plan) {
	t.Helper()
	c, err := Start(t.Context(), s, plan)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := c.Wait(); err != nil || status.ExitCode() != 0 {
		t.Fatal(status, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
