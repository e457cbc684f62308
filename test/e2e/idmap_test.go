package e2e

import (
	"os"
	"testing"
)

// asHostRoot runs a script as root in a mount namespace of its own, "$0" being wolffia and "$1" the busybox root.
// Unlike inMounts' it belongs to the first user namespace, as that of a host does.
func asHostRoot(t testing.TB, script string, args ...string) ran {
	t.Helper()
	need(t, os.Getuid() == 0, "root")
	return command{args: append([]string{needTool(t, "unshare"), "--mount", "sh", "-c", script, wolffia, rootfs}, args...)}.do(t)
}

// Most hosts share "/" with all mount namespaces. What a container mounts in its idmapped root must not appear there.
func TestRootSharedRoot(t *testing.T) {
	script := `mount -t tmpfs --make-shared -o mode=755 t /mnt && mkdir /mnt/root && cp -a "$1"/. /mnt/root && before=$(cat /proc/self/mountinfo) &&
		"$0" run --rootfs /mnt/root -- grep -c shared: /proc/self/mountinfo; "$0" run --rootfs /mnt/root --read-only -- true && echo started &&
		test "$(cat /proc/self/mountinfo)" = "$before" && echo unchanged`
	if r := asHostRoot(t, script); r.out != "0\nstarted\nunchanged\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
}
