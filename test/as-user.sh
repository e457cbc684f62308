#!/usr/bin/env bash
# as-user.sh COMMAND [ARG...]
#
# Root runs COMMAND as the ordinary user (wolffia-test, or $WOLFFIA_TEST_USER) the way a login would: that user's
# groups, no capabilities, no fds but 0, 1 and 2, no signal ignored (by nohup, say), and an environment of nothing but the
# account's own variables, WOLFFIA_* and Go's run-time settings. Anybody else just runs COMMAND.
#
# It is also what `go test -exec` is given. Go builds a test into a folder that only root can enter, so a *.test
# is copied to $WOLFFIA_TEST_WORK first. Every step is an exec: the test keeps the pid that go waits for, may
# kill on a time-out, and takes the exit status from.
set -euo pipefail

if [ "$(id -u)" != 0 ]; then exec "$@"; fi

user=${WOLFFIA_TEST_USER:-wolffia-test}
IFS=: read -r _ _ uid gid _ home shell < <(getent passwd "$user")

case $1 in
*.test)
	copy=$(mktemp -d "$WOLFFIA_TEST_WORK/exec.XXXXXX")
	chmod 755 "$copy"
	install -m 755 "$1" "$copy/"
	set -- "$copy/${1##*/}" "${@:2}"
	;;
esac

environment=(
	HOME="$home" USER="$user" LOGNAME="$user" SHELL="$shell" PWD="$PWD"
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
)
for name in $(compgen -e); do
	case $name in
	WOLFFIA_TEST_TMP) environment+=(TMPDIR="${!name}") ;;
	WOLFFIA_* | GODEBUG | GORACE | GOMAXPROCS | GOTRACEBACK | LANG | TERM) environment+=("$name=${!name}") ;;
	esac
done

# Nothing but 0, 1 and 2 comes along. (255 is bash's own, of this script, and close-on-exec.)
for fd in /proc/self/fd/*; do
	fd=${fd##*/}
	if [ "$fd" -gt 2 ] && [ "$fd" != 255 ]; then exec {fd}>&-; fi
done

exec setpriv --reuid "$uid" --regid "$gid" --init-groups --inh-caps=-all --ambient-caps=-all \
	env --default-signal -i "${environment[@]}" "$@"
