package bench

import (
	"os"
	"path/filepath"
	"testing"

	"wolffia.dev/userns"
)

// BenchmarkLaunch is the whole life of a process that starts one container: ours,
// the floor's and the peers'. A peer that can't run here is skipped by name.
// For ratios take bench/compare, which interleaves them.
func BenchmarkLaunch(b *testing.B) {
	root := rootfs(b)
	for _, mode := range mapModes(b) {
		for _, l := range launches(b, mode, root) {
			b.Run("by="+l.Name+"/map="+string(mode), func(b *testing.B) {
				if l.Try(); l.Skip != "" {
					skip(b, l.Skip)
				}
				b.ResetTimer()
				for range b.N {
					if _, err := l.Time(nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func launches(b *testing.B, mode userns.Mode, root string) []*Launch {
	v := Variant{Map: mode}
	list := []*Launch{
		WolffiaLaunch("wolffia", os.Getenv("WOLFFIA_BIN"), v, root, "/bin/true"),
		floorLaunch(b, v, root),
		CrunLaunch("crun", filepath.Join(b.TempDir(), "crun"), root, mode, "/bin/true"),
	}
	if mode == userns.Single {
		v.ReadOnly = true
		list = append(list, WolffiaLaunch("wolffia-readonly", os.Getenv("WOLFFIA_BIN"), v, root, "/bin/true"),
			BwrapLaunch("bwrap", root, false, "/bin/true"))
	}
	return list
}

func floorLaunch(b *testing.B, v Variant, root string) *Launch {
	plan := planOf(b, v, root)
	f, err := BuildFloor(&plan.Plan, b.TempDir(), "floor", false)
	if err != nil {
		return &Launch{Name: "floor", Skip: err.Error()}
	}
	return &Launch{Name: "floor", Path: f.Path}
}
