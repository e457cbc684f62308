# shellcheck shell=bash
# The cache: everything that was fetched or built, in one folder of bounded size. Sourced by vm.
#
#   apt/RELEASE     package lists and packages of one Debian release
#   kernel/…        one kernel: vmlinux, its modules as an ext4 image, an initramfs
#   root/…          one root file system as an ext4 image
#   warm/…          one saved machine
#
# The last part of a name is a checksum of what it was made from: another recipe makes another folder. A folder is
# complete when it has a file "ready". Who builds holds the lock of the whole cache; who uses a folder holds a shared
# lock on its "ready", which QEMU inherits, so that nobody removes what a machine still reads.

checksum() { cksum | cut -d ' ' -f 1; }

# hold DIR: in use, until this process and its QEMU are gone. The time of "used" is what trim goes by.
hold() {
	local fd
	exec {fd}<"$1/ready"
	flock -s "$fd"
	touch "$1/used"
}

# trim removes what nobody finished, and then what was used longest ago until the rest fits. The lock is held.
trim() {
	local dir
	for dir in "$cache"/{kernel,root,warm}/*; do
		[ -e "$dir/ready" ] || rm -rf "$dir"
	done
	while IFS= read -r dir; do
		[ "$(du -sm "$cache" | cut -f 1)" -gt "${WOLFFIA_VM_CACHE_MIB:-8192}" ] || return 0
		flock -n "$dir/ready" rm -rf "$dir" || true # in use: it stays
	done < <(find "$cache" -mindepth 3 -maxdepth 3 -name used -printf '%T@ %h\n' | sort -n | cut -d ' ' -f 2-)
}

# mirror prints the Debian mirror that apt uses here, without a final slash.
mirror() {
	local uri
	# shellcheck disable=SC2016  # it is apt that expands this
	uri=${WOLFFIA_VM_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | sed -n 's#/$##; /\/debian$/{p;q}')}
	[ "$uri" ] || die "apt knows no Debian mirror here: set WOLFFIA_VM_MIRROR"
	echo "$uri"
}

# sources RELEASE prints apt's lines for it.
sources() {
	local keys=/usr/share/keyrings/debian-archive-keyring.gpg signed='' uri
	uri=$(mirror) || exit 125
	[ ! -e $keys ] || signed="[signed-by=$keys]"
	echo "deb $signed $uri $1 main"
	case $1 in bookworm | trixie) echo "deb $signed $uri-security $1-security main" ;; esac
}

# apt_of RELEASE COMMAND ARG...: an apt command that sees this release alone. Lists older than a day are read again.
apt_of() {
	local release=$1 command=$2 dir=$cache/apt/$1
	shift 2
	local options=(-q -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$dir/lists" -o Dir::State::status="$dir/status"
		-o Dir::Cache="$dir" -o APT::Sandbox::User=root)
	if [ -z "$(find "$dir/ready" -mmin -1440 2>/dev/null)" ]; then
		say "reading the package lists of $release"
		mkdir -p "$dir"/{lists,archives}/partial
		: >"$dir/status"
		sources "$release" >"$dir/sources.list"
		apt-get "${options[@]}" update >"$dir/log" 2>&1 || { cat "$dir/log" >&2 && die "apt-get update failed for $release"; }
		touch "$dir/ready"
	fi
	touch "$dir/used"
	"$command" "${options[@]}" "$@"
}

# download RELEASE PACKAGE... puts the packages into apt/RELEASE/archives and prints their files. What lies there already
# isn't fetched again.
download() {
	local dir=$cache/apt/$1/archives package version
	apt_of "$1" true
	for package in "${@:2}"; do
		(cd "$dir" && apt_of "$1" apt-get download "$package") >"$dir/../log" 2>&1 ||
			{ cat "$dir/../log" >&2 && die "can't download $package"; }
		version=$(apt_of "$1" apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p')
		find "$dir" -name "${package}_${version//:/%3a}_*.deb"
	done
}

# image DIR FILE [FREE-MIB] makes an ext4 image of DIR, with that much room.
image() {
	local mib files
	mib=$(du -sm --apparent-size "$1" | cut -f 1)
	files=$(find "$1" | wc -l)
	rm -f "$2"
	mke2fs -q -F -t ext4 -b 4096 -N $((files * 2 + 4096)) -m 0 -O ^has_journal,^metadata_csum \
		-E root_owner=0:0,lazy_itable_init=1 -d "$1" "$2" "$((mib + mib / 4 + files / 200 + 8 + ${3:-0}))M" >/dev/null
}

# cpio_of DIR prints an initramfs of DIR.
cpio_of() { (cd "$1" && find . | busybox cpio -o -H newc -R 0:0 2>/dev/null); }
