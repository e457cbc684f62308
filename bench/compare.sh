#!/usr/bin/env bash
# compare.sh [flag of bench/compare ...]
#
# The table of goals, in one run: builds wolffia and bench/compare and runs the latter as an ordinary user. As root
# it also makes the place that crun demands, for everything that is measured: a mount namespace of its own with a pure
# cgroup2 mount, and one cgroup, wolffia-bench, that belongs to the user and is removed at the end. Called by an
# ordinary user it does without, and crun is skipped by name where it refuses to run.
#
#   bash bench/compare.sh -rounds 50 -csv /tmp/samples.csv
#   bash bench/compare.sh --fds [-rounds 60]      user namespace fds: as root with three extents, and as the user
#   bash bench/compare.sh --limits [-rounds 200]  what a limit adds to a start: v1 delegated (needs root), and cgroup v2
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
tree=/sys/fs/cgroup group=/sys/fs/cgroup/wolffia-bench

# leave goes back to where we came from, so that the group is empty, and removes it. The last container's
# processes may take a moment to go.
leave() {
	[ -d "$group" ] || return 0
	echo $$ >"$tree$home/cgroup.procs"
	local try
	for try in 1 2 3 4 5 6 7 8 9 10; do
		find "$group" -depth -mindepth 1 -type d -exec rmdir {} + 2>/dev/null || true
		if rmdir "$group" 2>/dev/null; then return 0; fi
		sleep 0.2
	done
	echo "$group could not be removed after $try tries; it holds:" >&2
	cat "$group/cgroup.procs" >&2
	return 1
}

# in_place runs the rest in the private mount namespace.
in_place() {
	local user=$1
	shift
	if [ -e "$group" ]; then
		echo "$group is there already: another compare.sh runs, or one was killed; if none runs, rmdir it" >&2
		return 1
	fi
	home=$(sed -n 's/^0:://p' /proc/self/cgroup)
	trap leave EXIT
	mkdir "$group"
	chown "$user:" "$group" "$group"/cgroup.{procs,threads,subtree_control}
	echo $$ >"$group/cgroup.procs"
	bash test/as-user.sh "$@"
}

if [ "${1-}" = --in-place ]; then
	[ "$(stat -f -c %T "$tree")" = cgroup2fs ] || mount -t cgroup2 cgroup2 "$tree"
	in_place "${@:2}"
	exit
fi

table=starts
case ${1-} in --fds | --limits) table=${1#--} && shift ;; esac

bash test/setup.sh
work=$(mktemp -d /tmp/wolffia-bench.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
mkdir "$work/bin"
export CGO_ENABLED=0
go build -trimpath -buildvcs=false -o "$work/bin/" ./cmd/... ./bench/compare
printf 'package main\n\nfunc main() {}\n' >"$work/empty.go"
go build -trimpath -o "$work/bin/empty" "$work/empty.go"

user=$(id -un)
[ "$user" != root ] || user=${WOLFFIA_TEST_USER:-wolffia-test}
install -d -o "$user" "$work/user"
bash test/as-user.sh bash -s -- "$work/user/rootfs" <test/rootfs.sh
# As installed programs are: see build in the Makefile.
for program in "$work"/bin/*; do cp "$program" "$program.copy" && mv "$program.copy" "$program"; done
command=("$work/bin/compare" -wolffia "$work/bin/wolffia" -empty "$work/bin/empty" -rootfs "$work/user/rootfs" -work "$work/user" "$@")

# limits_v1 delegates a folder of the v1 memory hierarchy, below our own cgroup, to the user for as long as it takes.
limits_v1() {
	local folder
	folder=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/wolffia-bench
	[ -d "$(dirname "$folder")" ] || { echo "no v1 memory hierarchy here: its row isn't measured" && return; }
	mkdir "$folder"
	trap 'rmdir "$folder"; rm -rf --one-file-system "$work"' EXIT
	chown "$user:" "$folder" "$folder/cgroup.procs"
	bash test/as-user.sh "${command[@]}" -limits "--memory 64m --cgroup-parent wolffia-bench"
	rmdir "$folder"
	trap 'rm -rf --one-file-system "$work"' EXIT
}

case $table in
fds)
	[ "$(id -u)" != 0 ] || "$work/bin/compare" -fds "$@"
	bash test/as-user.sh "$work/bin/compare" -fds "$@"
	exit
	;;
limits)
	[ "$(id -u)" = 0 ] || { echo "compare.sh --limits needs root, to delegate" >&2 && exit 1; }
	limits_v1
	command+=(-limits "--cgroup-conf cgroup.max.depth=4")
	;;
esac

if [ "$(id -u)" = 0 ]; then
	unshare --mount --propagation private bash bench/compare.sh --in-place "$user" "${command[@]}"
else
	"${command[@]}"
fi
