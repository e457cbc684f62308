#!/usr/bin/env bash
# What every start of bin/wolffia pays before main: the time and memory of package initialisation, beside an empty
# Go program's, and the packages it is made of. The figures are of one run, and small: read them as a size.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'package main\n\nfunc main() {}\n' >"$work/empty.go"
go build -trimpath -o "$work/empty" "$work/empty.go"
go build -trimpath -buildvcs=false -o "$work/wolffia" ./cmd/wolffia

# init_cost NAME COMMAND...: "init PACKAGE @0.1 ms, 0.02 ms clock, 1024 bytes, 3 allocs" is one line of the trace.
init_cost() {
	local name=$1
	shift
	GODEBUG=inittrace=1 "$@" 2>&1 >/dev/null | awk -v name="$name" '
		/^init / { n++; clock += $5; bytes += $8; allocs += $10; line[n] = $0 }
		END {
			printf "%s: %d packages initialised, %.3f ms, %d bytes, %d allocations\n", name, n, clock, bytes, allocs
			for (i = 1; i <= n; i++) print "  " line[i]
		}'
}
init_cost "an empty program" "$work/empty"
init_cost "wolffia version" "$work/wolffia" version
stat -c '%n: %s bytes' "$work/empty" "$work/wolffia" | sed "s|$work/||"

imports=$(go list -deps ./cmd/wolffia)
echo "imports: $(wc -l <<<"$imports") packages"
fmt -w 110 <<<"$imports"
# Each of these costs a start more than what it is used for.
if grep -xE 'os/exec|net|net/http|regexp|text/template|html/template|log|log/slog|math/big|github.com/godbus/dbus/v5' <<<"$imports"; then
	echo "the above are too heavy for the start path: they belong in a binary beside it" >&2
	exit 1
fi
