#!/usr/bin/env bash
# The first container (`make run`, which builds bin/wolffia before): sets the machine up, makes a small root, and
# starts a shell in it that shows where it is. An ordinary user runs it all; root hands it to the test user.
set -euo pipefail
cd "$(dirname "$0")/.."
bash test/setup.sh

# The test user may not be able to enter this checkout: it gets a copy of the program, and scripts on stdin.
if [ "$(id -u)" = 0 ]; then
	user=${WOLFFIA_TEST_USER:-wolffia-test}
	cache=$(getent passwd "$user" | cut -d: -f6)/.cache/wolffia
	wolffia=$cache/bin/wolffia
	bash test/as-user.sh mkdir -p "$cache/bin"
	for program in bin/wolffia*; do
		bash test/as-user.sh sh -c 'cat >"$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"' \
			sh "$cache/$program" <"$program"
	done
	work=$cache
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/wolffia
	wolffia=bin/wolffia
	work=.
fi
bash test/as-user.sh bash -s -- "$cache/rootfs" <test/rootfs.sh

# shellcheck disable=SC2016  # it is the container's shell that expands this
show='echo "hello from $(hostname)"; id; ps; mount | head -n 3; cat /proc/self/uid_map'
echo "\$ $wolffia run --rootfs $cache/rootfs -- /bin/sh -c '$show'"
exec bash test/as-user.sh env -C "$work" "$wolffia" run --rootfs "$cache/rootfs" -- /bin/sh -c "$show"
