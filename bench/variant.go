package bench

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/container"
	"wolffia.dev/userns"
)

// A Variant is one kind of container whose start is measured.
type Variant struct {
	Map      userns.Mode // userns.Auto: sub-ids, by both set-uid helpers; userns.Single: one id, written directly
	ReadOnly bool        // the root is the folder, read-only; otherwise a throw-away overlay lies on it
	HostNet  bool        // no network namespace of its own
}

// String is the variant as the name of a sub-benchmark, with benchstat's keys.
func (v Variant) String() string {
	root, net := "overlay", "own"
	if v.ReadOnly {
		root = "readonly"
	}
	if v.HostNet {
		net = "host"
	}
	return "map=" + string(v.Map) + "/root=" + root + "/net=" + net
}

// Flags are the arguments of `wolffia run` that ask for this container.
func (v Variant) Flags(rootfs string) []string {
	flags := []string{"--rootfs", rootfs, "--map", string(v.Map)}
	if v.ReadOnly {
		flags = append(flags, "--read-only")
	}
	if v.HostNet {
		flags = append(flags, "--share", "net")
	}
	return flags
}

// Request is what those flags ask for, as Probe and Compile take it. Without
// TERM in the environment `wolffia run` asks for exactly the same.
func (v Variant) Request(rootfs string, args ...string) (*specs.Spec, *container.Options) {
	spec := container.DefaultSpec()
	spec.Process.Args = args
	spec.Process.Env = append(spec.Process.Env, "HOME=/root")
	o := &container.Options{AnyUser: true, Map: userns.Request{Mode: v.Map}, Root: container.Root{Kind: container.RootOverlay, Path: rootfs}}
	if v.ReadOnly {
		o.Root.Kind = container.RootReadOnly
	}
	if v.HostNet {
		spec.Linux.Namespaces = without(spec.Linux.Namespaces, specs.NetworkNamespace)
	}
	return spec, o
}

func without(list []specs.LinuxNamespace, drop specs.LinuxNamespaceType) []specs.LinuxNamespace {
	var kept []specs.LinuxNamespace
	for _, n := range list {
		if n.Type != drop {
			kept = append(kept, n)
		}
	}
	return kept
}

// Plan probes this machine and plans the container.
func (v Variant) Plan(rootfs string, args ...string) (*container.Plan, error) {
	spec, o := v.Request(rootfs, args...)
	facts, err := container.Probe(spec, o)
	if err != nil {
		return nil, err
	}
	return container.Compile(spec, o, facts)
}
