#!/usr/bin/env bash
# packages.sh COMMAND:DEBIAN-PACKAGE...
#
# Installs the packages whose command is missing. Where it may not (not root, or no apt-get) it says exactly
# what to install and fails.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

missing=()
for want in "$@"; do
	command -v "${want%%:*}" >/dev/null || missing+=("${want#*:}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "missing; as root: apt-get install ${missing[*]}" >&2
	echo "  (Fedora: shadow-utils busybox procps-ng; Arch: shadow busybox procps-ng)" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "missing, by their Debian names: ${missing[*]}; this machine has no apt-get: install them its own way" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
install_them() { apt-get install -y -q --no-install-recommends "${missing[@]}"; }

# The package lists are fetched only when those that lie here don't do.
echo "installing ${missing[*]}"
install_them >/dev/null 2>&1 || { apt-get update -q && install_them; }
