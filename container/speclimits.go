package container

import (
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/cgroup"
)

// specLimits reads linux.resources and linux.cgroupsPath. The device rules are
// package container's own (refuse_values.go).
func specLimits(spec *specs.Spec) (*limitsOf, error) {
	l := &limitsOf{}
	if spec.Linux == nil {
		return l, nil
	}
	var err error
	if l.spec, l.notes, err = cgroup.FromResources(spec.Linux.Resources); err != nil {
		return nil, err
	}
	if spec.Linux.CgroupsPath != "" {
		l.parent, l.name, err = cgroup.ParsePath(spec.Linux.CgroupsPath)
	}
	if slice, _, ok := strings.Cut(spec.Linux.CgroupsPath, ":"); ok && slice != "" && l.parent == "" {
		l.notes = append(l.notes, "linux.cgroupsPath: the slice "+slice+" isn't used: the container's cgroup is made where wolffia itself is, or where systemd's manager puts it")
	}
	return l, err
}

// probeCgroups looks at the control groups, if the container is to have one of its
// own, or if all facts are wanted.
func (f *Facts) probeCgroups(spec *specs.Spec, o *Options) error {
	limits, err := specLimits(spec)
	if err != nil {
		return err
	}
	w := cgroupWish(limits, &o.Cgroups)
	if !asked(w) && !o.AllFacts {
		return nil
	}
	f.Cgroup, err = cgroup.Probe(cgroup.ProbeOptions{Limits: w.Limits, Parent: w.Parent})
	return err
}
