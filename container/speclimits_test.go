package container

import (
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// "slice:prefix:name" names a slice, which isn't used: that is told.
func TestSliceIsTold(t *testing.T) {
	for path, told := range map[string]bool{"user.slice:wolffia:box": true, ":wolffia:box": false, "/user.slice/box": false, "a:b/box": false} {
		l, err := specLimits(&specs.Spec{Linux: &specs.Linux{CgroupsPath: path}})
		if err != nil || (len(l.notes) == 1 && strings.Contains(l.notes[0], "the slice user.slice isn't used")) != told {
			t.Errorf("%s: %q %v", path, l.notes, err)
		}
	}
}
