#!/usr/bin/env bash
# Makes this machine ready for `make run` and `make test`. It may be run again at any time.
#
# As root: installs what is missing and makes the ordinary user that runs containers (wolffia-test, or
# $WOLFFIA_TEST_USER) with 65,536 subordinate ids that nobody else has. As anybody else: checks the same things
# for the current user and says what root has to do.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

user=$(id -un)
[ "$user" != root ] || user=${WOLFFIA_TEST_USER:-wolffia-test}

# first_free_id prints the first id above every account and every subordinate range, at least 100000.
first_free_id() {
	{
		awk -F: '{ print $2 + $3 }' /etc/subuid /etc/subgid 2>/dev/null || true
		getent passwd | awk -F: '{ print $3 + 1 }'
		getent group | awk -F: '{ print $3 + 1 }'
	} | awk -v max=100000 '$1 > max { max = $1 } END { printf "%d\n", max }'
}

# has_subids FILE: FILE delegates at least 65,536 ids to the user, by name or by number.
has_subids() {
	awk -F: -v name="$user" -v id="$(id -u "$user")" \
		'$1 == name || $1 == id { n += $3 } END { exit n < 65536 }' "$1" 2>/dev/null
}

make_user() {
	id "$user" >/dev/null 2>&1 || { echo "creating the user $user"; useradd --create-home --shell /bin/sh "$user"; }
	local first last
	first=$(first_free_id)
	last=$((first + 65535))
	has_subids /etc/subuid || usermod --add-subuids "$first-$last" "$user"
	has_subids /etc/subgid || usermod --add-subgids "$first-$last" "$user"
}

check_user() {
	if ! has_subids /etc/subuid || ! has_subids /etc/subgid; then
		local first
		first=$(first_free_id)
		echo "$user has no 65,536 subordinate ids; as root:" >&2
		echo "  usermod --add-subuids $first-$((first + 65535)) --add-subgids $first-$((first + 65535)) $user" >&2
		exit 1
	fi
}

# check_userns tries what no container can do without.
check_userns() {
	bash test/as-user.sh unshare --user --map-root-user true && return
	echo "$user can't make a user namespace here; what may forbid it:" >&2
	local knob
	for knob in user/max_user_namespaces kernel/unprivileged_userns_clone kernel/apparmor_restrict_unprivileged_userns; do
		[ ! -r "/proc/sys/$knob" ] || echo "  sysctl ${knob/\//.} = $(cat "/proc/sys/$knob")" >&2
	done
	exit 1
}

if ! command -v go >/dev/null; then
	echo "missing: go, $(awk '$1 == "go" { print $2 }' go.mod) or newer; see https://go.dev/doc/install" >&2
	exit 1
fi
bash test/packages.sh newuidmap:uidmap busybox:busybox-static setpriv:util-linux ps:procps flock:util-linux
# A root for containers has no libraries. There is no command "a static busybox" to find: this asks for the package.
! ldd "$(command -v busybox)" >/dev/null 2>&1 || bash test/packages.sh "a static busybox:busybox-static"
if [ "$(id -u)" = 0 ]; then make_user; fi
check_user
check_userns
