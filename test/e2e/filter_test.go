package e2e

import (
	"strings"
	"testing"
)

// youki-dev/youki#2030, golang/go#62654, freedomofpress/dangerzone#846: an outer container's filter.
func TestSeccompFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rules string
		weak  bool
		note  string
	}{
		{"clone3=ENOSYS", false, "clone3(2) is forbidden"},
		{"clone3=EPERM", false, "clone3(2) is forbidden"},
		{"keyctl=EPERM", false, "session keyring"},
		{"pidfd_open=ENOSYS", false, ""},
		{"ptrace=EPERM", false, ""},
		{"waitid=ENOSYS", true, ""},
		{"waitid=EPERM", true, ""},
		{"clone3=ENOSYS,waitid=EPERM,pidfd_open=EPERM,pidfd_send_signal=EPERM", true, "clone3(2) is forbidden"},
	} {
		c := asRole("filter", append([]string{test.rules, wolffia, "run", "--map", "single"}, inRoot("exit 6")...)...)
		r, res := c.withResult(t, 4)
		if r.exits(t, 6); res.Weak != test.weak || !strings.Contains(strings.Join(res.Notes, "\n"), test.note) {
			t.Errorf("%s: weak %v, notes %q", test.rules, res.Weak, res.Notes)
		}
	}
}

// vegardit/docker-gitea-act-runner#49, containers/bubblewrap#139: whichever call an outer sandbox refuses, one attempt,
// one error that names it and the likely cause, and no process left.
func TestRefusedCall(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"fsopen", "fsconfig", "fsmount", "move_mount", "open_tree", "mount_setattr", "openat2", "close_range",
		"pivot_root", "umount2", "unshare", "mount", "sethostname", "capset", "setsid"} {
		for _, errno := range []string{"EPERM", "ENOSYS"} {
			word := token()
			r := asRole("filter", append([]string{call + "=" + errno, wolffia, "run", "--map", "single"}, inRoot("sleep "+word)...)...).do(t)
			r.refused(t, call+"(", errno, "seccomp")
			eventually(t, "the end of all processes", func() bool { return len(having(word)) == 0 })
		}
	}
}
