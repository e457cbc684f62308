#!/usr/bin/env bash
# What can be said of the code without running it. The first complaint ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOOS=linux

echo "# gofmt"
unformatted=$(gofmt -l .)
if [ "$unformatted" ]; then
	gofmt -d . >&2
	echo "not formatted by gofmt: $unformatted" >&2
	exit 1
fi

# vet compiles the tests too; on arm64 that, and the build, is all that can be checked here.
for arch in amd64 arm64; do
	echo "# build and vet $arch"
	GOARCH=$arch go build -trimpath -buildvcs=false -o /dev/null ./...
	GOARCH=$arch go vet ./...
done

# criyle/go-sandbox#13: a private symbol of the runtime breaks the build with the next Go. cgo would need a compiler.
echo "# no go:linkname, no cgo"
if grep -rnE --include='*.go' '^//go:linkname|^import "C"' .; then exit 1; fi

# pinned MODULE@VERSION PATH: runs the tool, unless its module can't be had (offline), and says so.
pinned() {
	if ! go mod download "$1"; then
		echo "$1: can't be downloaded, NOT CHECKED" >&2
		return
	fi
	go run "${1%@*}/$2@${1#*@}" ./...
}
echo "# staticcheck"
pinned honnef.co/go/tools@v0.8.2 cmd/staticcheck

echo "# shellcheck"
if command -v shellcheck >/dev/null; then
	shellcheck -x -a .ci/run test/*.sh test/vm/vm test/vm/exec test/vm/guest/{initramfs,minimal-init,runner,tests}
else
	echo "shellcheck: not installed, NOT CHECKED" >&2
fi
