#!/usr/bin/env bash
# run.sh test|race|bench
#
# Runs the Go tests (or benchmarks) of every package. Called by root, it sets the machine up, then runs them as
# the ordinary user, and for `test` afterwards those whose names begin with TestRoot as root. Called by anybody
# else, it runs all but those as the current user. Tests named TestVM… and TestRootVM… are for test/vm.sh.
#
# What the tests find in their environment:
#   WOLFFIA_MUST_RUN   set: a test that would skip fails (set it empty to allow skips)
#   WOLFFIA_BIN        the built bin/wolffia, its companions beside it
#   WOLFFIA_ROOTFS     a busybox root, owned by who runs the test
#   TMPDIR             a folder that must be empty again at the end (as root)
#   WOLFFIA_TEST_USER  root-only tests: the ordinary user
#
# Settings: BENCH, BENCHTIME, COUNT for benchmarks; RUN, a regexp, for fewer tests; PKGS for fewer packages.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
mode=$1
am_root=$([ "$(id -u)" != 0 ] || echo yes)
if [ "$am_root" ]; then user=${WOLFFIA_TEST_USER:-wolffia-test}; else user=$(id -un); fi
read -r -a packages <<<"${PKGS:-./...}"

# One run at a time for a user, or one would find the other's processes. -o: the lock's fd reaches no test.
if [ -z "${WOLFFIA_TEST_LOCKED-}" ]; then
	bash test/setup.sh
	home=$(getent passwd "$user" | cut -d: -f6)
	WOLFFIA_TEST_LOCKED=yes exec flock -o "$home" bash test/run.sh "$mode"
fi
unset WOLFFIA_TEST_LOCKED

work=$(mktemp -d /tmp/wolffia-test.XXXXXX)
chmod 755 "$work"

# What is still mounted there is somebody's files: such a folder is left alone.
clean_up() {
	if grep -q " $work/" /proc/self/mountinfo; then
		echo "left mounted below $work:" >&2
		grep " $work/" /proc/self/mountinfo >&2
		exit 1
	fi
	rm -rf --one-file-system "$work"
}
trap clean_up EXIT

# processes prints the user's processes, containers' included, as "pid uid state command". Zombies don't count:
# who reaps orphans is init's business.
processes() {
	ps -eo pid=,uid=,stat=,args= | awk -v uid="$(id -u "$user")" -v user="$user" '
		BEGIN {
			while ((getline line <"/etc/subuid") > 0) {
				split(line, f, ":")
				if (f[1] == user || f[1] == uid) { n++; first[n] = f[2]; end[n] = f[2] + f[3] }
			}
		}
		function own(id,   i) {
			if (id == uid) return 1
			for (i = 1; i <= n; i++) if (id >= first[i] && id < end[i]) return 1
			return 0
		}
		own($2) && $3 !~ /^Z/'
}

# left_over prints what is there now and wasn't when this run began. The end of a process or namespace may lag
# behind the test's by a moment.
left_over() {
	local try now
	for try in 1 2 3 4 5 6; do
		now=$(processes | awk 'FILENAME != "-" { before[$1]; next } !($1 in before)' "$work/before" -)
		[ "$now" ] || return 0
		[ "$try" = 6 ] || sleep 0.5
	done
	echo "$now"
}

# check_left fails when the tests left a process or a file behind.
check_left() {
	local processes files
	processes=$(left_over)
	files=$(find "$WOLFFIA_TEST_TMP" -mindepth 1 -maxdepth 2 -ls)
	[ -z "$processes$files" ] && return
	echo "FAIL: the tests left behind"
	echo "$processes"
	echo "$files"
	return 1
} >&2

# The checkout may lie where the user can't enter; tests run in their package's folder, so the tree is copied.
prepare_for_user() {
	mkdir "$work/src"
	tar -cf - --exclude=./.git --exclude=./bin . | tar -xf - -C "$work/src" --no-same-owner
	chmod -R a+rX "$work/src"
	install -d -o "$user" "$work/user"
	bash test/as-user.sh bash -s -- "$work/user/rootfs" <test/rootfs.sh
	processes >"$work/before"
	as_user=(-exec "$work/src/test/as-user.sh")
	cd "$work/src"
}

prepare_for_self() {
	bash test/rootfs.sh "$work/user/rootfs"
	as_user=()
}

go_test() { go test -count=1 -timeout=10m -trimpath -p=1 "$@" "${packages[@]}"; }

# root_packages prints the packages that have root-only tests.
root_packages() {
	{ grep -rl --include='*_test.go' '^func TestRoot' . || true; } | xargs -r -n 1 dirname | sort -u
}

tests() {
	export WOLFFIA_MUST_RUN=${WOLFFIA_MUST_RUN-1}
	echo "# tests as $user"
	go_test "$@" "${as_user[@]}" -skip '^Test(Root|VM)' -run "${RUN:-.}"
}

root_tests() {
	export WOLFFIA_ROOTFS=$work/rootfs WOLFFIA_TEST_USER=$user
	bash test/rootfs.sh "$WOLFFIA_ROOTFS"
	[ "${PKGS-}" ] || mapfile -t packages < <(root_packages)
	[ ${#packages[@]} -gt 0 ] || return 0
	echo "# tests as root"
	TMPDIR=$WOLFFIA_TEST_TMP go_test -skip '^TestRootVM' -run "${RUN:-^TestRoot}"
}

export CGO_ENABLED=0
export WOLFFIA_TEST_WORK=$work WOLFFIA_TEST_TMP=$work/tmp
export WOLFFIA_BIN=$work/bin/wolffia WOLFFIA_ROOTFS=$work/user/rootfs
mkdir "$work/bin"
mkdir -m 1777 "$work/tmp"
go build -trimpath -buildvcs=false -o "$work/bin/" ./cmd/...
if [ "$am_root" ]; then prepare_for_user; else prepare_for_self; fi

case $mode in
test)
	tests
	[ -z "$am_root" ] || check_left
	case ${am_root:-no}:${RUN:-^TestRoot} in yes:*TestRoot*) root_tests ;; esac
	;;
race) CGO_ENABLED=1 tests -race ;;
bench) go_test "${as_user[@]}" -run '^$' -bench "${BENCH:-.}" -benchmem -benchtime "${BENCHTIME:-1s}" -count "${COUNT:-1}" ;;
*) echo "usage: run.sh test|race|bench" >&2 && exit 2 ;;
esac
[ -z "$am_root" ] || check_left
