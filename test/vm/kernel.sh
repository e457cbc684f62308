# shellcheck shell=bash
# Kernels: Debian's linux-image-cloud-amd64 of the release that ships the wanted version. Sourced by vm.

# release_of KERNEL prints the Debian release that ships it.
release_of() {
	case $1 in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	7.2) echo sid ;;
	*) die "no such kernel: $1" ;;
	esac
}

# unpack_vmlinux BZIMAGE FILE writes the ELF kernel inside a bzImage (setup_sects, payload_offset and payload_length of
# Documentation/arch/x86/boot.rst). Emulated CPUs are slow at unpacking it themselves.
unpack_vmlinux() {
	local setup offset length unpack
	setup=$(od -An -tu1 -j 497 -N 1 "$1" | tr -d ' ')
	offset=$(od -An -tu4 -j 584 -N 4 "$1" | tr -d ' ')
	length=$(od -An -tu4 -j 588 -N 4 "$1" | tr -d ' ')
	offset=$(((setup + 1) * 512 + offset))
	tail -c +$((offset + 1)) "$1" | head -c $((length - 4)) >"$2.packed" || true # tail: SIGPIPE
	case $(od -An -tx1 -N 4 "$2.packed" | tr -d ' ') in
	02214c18) unpack=(lz4 -dcq) ;;
	28b52ffd) unpack=(zstd -dcq) ;;
	fd377a58) unpack=(xz -dc) ;;
	5d0000*) unpack=(xz -dc --format=lzma) ;;
	1f8b*) unpack=(gzip -dc) ;;
	*) die "no compression that is known here, of the kernel in $1" ;;
	esac
	"${unpack[@]}" "$2.packed" >"$2"
	rm -f "$2.packed"
}

# with_dependencies DIR MODULE prints a module's files in the order to load them; nothing for one that is built in.
with_dependencies() {
	awk -v want="$2" '
		{
			file = $1; sub(/:$/, "", file)
			name = file; sub(/.*\//, "", name); sub(/\.ko$/, "", name); gsub(/-/, "_", name)
			if (name == want) { for (i = NF; i > 1; i--) print $i; print file }
		}' "$1/modules.dep"
}

# kernel_packages RELEASE prints what linux-image-cloud-amd64 depends on: newer kernels come in several packages.
kernel_packages() {
	local main
	main=$(apt_of "$1" apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
	case $main in linux-image-"$kernel"[.-]*) ;; *) die "$1 now ships ${main:-no kernel}, not a $kernel kernel" ;; esac
	echo "$main"
	apt_of "$1" apt-cache depends "$main" |
		awk -v version="${main#linux-image-}" '/Depends: linux-(base|binary|modules)-/ && index($2, version) { print $2 }'
}

# modules_of DIR TREE puts all modules of TREE, unpacked, into DIR/lib/modules, as depmod(8) wants it.
modules_of() {
	mkdir -p "$1/lib"
	if [ -d "$2/usr/lib/modules" ]; then mv "$2/usr/lib/modules" "$1/lib/"; else mv "$2/lib/modules" "$1/lib/"; fi
	find "$1" \( -name build -o -name source \) -type l -delete
	find "$1" -name '*.ko.xz' -print0 | xargs -0r -P 2 -n 64 xz -d
	find "$1" -name '*.ko.zst' -print0 | xargs -0r -P 2 -n 64 zstd -dq --rm
	depmod -b "$1" "$(ls "$1/lib/modules")" # not busybox's: it writes no modules.dep.bin
}

# initramfs_of DIR MODULES lays out an initramfs: busybox and the modules that find the disks.
initramfs_of() {
	local module file
	mkdir -p "$1/bin" "$1/modules"
	cp "$(readlink -f "$(type -P busybox)")" "$1/bin/busybox"
	for module in virtio_pci virtio_blk virtio_console ext4; do
		for file in $(with_dependencies "$2" "$module"); do
			[ ! -e "$1/modules/${file##*/}" ] || continue
			cp "$2/$file" "$1/modules/"
			echo "${file##*/}" >>"$1/modules/order"
		done
	done
	install -m 755 "$here/guest/initramfs" "$1/init"
}

build_kernel() {
	kernel_dir=$cache/kernel/$kernel-$(cat "$here/kernel.sh" "$here/guest/initramfs" | checksum)
	[ ! -e "$kernel_dir/ready" ] || { hold "$kernel_dir" && return; }
	local release packages list debs deb tmp=$kernel_dir/tmp
	release=$(release_of "$kernel")
	rm -rf "$kernel_dir"
	mkdir -p "$tmp"
	list=$(kernel_packages "$release") || exit 125
	mapfile -t packages <<<"$list"
	say "kernel $kernel: ${packages[*]}"
	debs=$(download "$release" "${packages[@]}") || exit 125
	for deb in $debs; do dpkg-deb -x "$deb" "$tmp/tree"; done
	unpack_vmlinux "$(find "$tmp/tree" -type f -name 'vmlinuz*')" "$kernel_dir/vmlinux"
	find "$tmp/tree" -type f -path '*boot/config-*' -exec cp {} "$kernel_dir/config" \;
	modules_of "$tmp/modules" "$tmp/tree"
	image "$tmp/modules/lib/modules" "$kernel_dir/modules.ext4"
	initramfs_of "$tmp/initramfs" "$tmp/modules/lib/modules"/*
	cpio_of "$tmp/initramfs" >"$kernel_dir/initramfs.cpio"
	rm -rf "$tmp"
	touch "$kernel_dir/ready"
	hold "$kernel_dir"
}
