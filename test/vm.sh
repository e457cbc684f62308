#!/usr/bin/env bash
# vm.sh: runs the tests that are meant for it in virtual machines with other kernels (make test-vm). Needs root.
#
# Those are named TestVM…, run by an ordinary user, and TestRootVM…, run by the guest's root; no other run includes
# them. Each package gets a machine of its own, one for each of the two. How such a test looks for what it needs:
# WOLFFIA_MUST_RUN is set, so on every kernel it has to observe something; it asks the kernel's version where kernels
# differ.
#
# Settings:
#   KERNELS    of 5.10, 6.1, 6.12 and 7.2                      (all)
#   FLAVOURS   of minimal and systemd                          (both)
#   PKGS       fewer packages
#   RUN        a regexp, for fewer tests; with PKGS for others too: RUN=. runs every one of these, as the ordinary user
#   SYSCTL     "NAME=VALUE ...", set before the tests run, as in SYSCTL=kernel.yama.ptrace_scope=2
#   LOGIN      set: in a login session, outside the user manager's delegated cgroup (systemd flavour)
#
# Machines, kernels and packages are kept in a cache of bounded size: see test/vm/vm.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export CGO_ENABLED=0 WOLFFIA_MUST_RUN=${WOLFFIA_MUST_RUN-1}
read -r -a kernels <<<"${KERNELS:-5.10 6.1 6.12 7.2}"
read -r -a flavours <<<"${FLAVOURS:-minimal systemd}"
read -r -a packages <<<"${PKGS:-./...}"
if [ "$(id -u)" != 0 ]; then
	echo "test/vm.sh needs root: it builds file systems with files of several owners" >&2
	exit 1
fi

work=$(mktemp -d /tmp/wolffia-test.XXXXXX)
child=''

# Whatever ends this ends the whole group of what it started: go, vm and QEMU.
clean_up() {
	[ -z "$child" ] || { kill -TERM -- "-$child" && wait "$child"; } 2>/dev/null || true
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# in_group COMMAND ARG... runs it in a process group of its own.
in_group() {
	local code=0
	set -m
	"$@" </dev/null &
	child=$!
	set +m
	wait "$child" || code=$?
	child=''
	return $code
}

# timed TEXT COMMAND ARG... runs it and prints how long it took.
timed() {
	local text=$1 begun=$SECONDS code=0
	shift
	echo "# $text"
	in_group "$@" || code=$?
	echo "# $text: $((SECONDS - begun)) s$([ $code = 0 ] || echo ", FAILED with $code")"
	return $code
}

# packages_with NAME prints the packages that have tests whose names begin so.
packages_with() {
	local dir
	go list -f '{{.Dir}}' "${packages[@]}" | while IFS= read -r dir; do
		! grep -qs "^func $1" "$dir"/*_test.go || echo "$dir"
	done
}

# tests_as USER REGEXP PACKAGE... in machines of this kernel and flavour.
tests_as() {
	[ $# -gt 2 ] || return 0
	local skip=()
	[ "$1" = root ] || skip=(-skip '^TestRoot')
	WOLFFIA_VM_KERNEL=$kernel WOLFFIA_VM_FLAVOUR=$flavour WOLFFIA_VM_USER=$1 \
		WOLFFIA_VM_SYSCTL=${SYSCTL-} WOLFFIA_VM_LOGIN=${LOGIN-} \
		timed "Linux $kernel, $flavour, tests as $1" \
		go test -v -count=1 -timeout=20m -trimpath -p=1 -exec "$PWD/test/vm/exec" -run "$2" "${skip[@]}" "${@:3}"
}

tests() {
	timed "Linux $kernel, $flavour, the machine" bash test/vm/vm build --warm --kernel "$kernel" --flavour "$flavour"
	case ${RUN-} in
	'')
		tests_as user '^TestVM' "${as_user[@]}"
		tests_as root '^TestRootVM' "${as_root[@]}"
		;;
	*TestRoot*) tests_as root "$RUN" "${as_root[@]}" ;;
	*) tests_as user "$RUN" "${as_user[@]}" ;;
	esac
}

export WOLFFIA_BIN=$work/bin/wolffia WOLFFIA_ROOTFS=$work/rootfs
bash test/packages.sh busybox:busybox-static
bash test/rootfs.sh "$WOLFFIA_ROOTFS"
go build -trimpath -buildvcs=false -o "$work/bin/" ./cmd/...
mapfile -t as_user < <(packages_with TestVM)
mapfile -t as_root < <(packages_with TestRootVM)
if [ "${RUN-}" ] && [ "${PKGS-}" ]; then as_user=("${packages[@]}") as_root=("${packages[@]}"); fi
if [ ${#as_user[@]} = 0 ] && [ ${#as_root[@]} = 0 ]; then
	echo "no package of ${packages[*]} has tests for virtual machines" >&2
	exit 1
fi
for kernel in "${kernels[@]}"; do
	for flavour in "${flavours[@]}"; do tests; done
done
