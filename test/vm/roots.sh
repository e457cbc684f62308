# shellcheck shell=bash
# The two root file systems. Sourced by vm.

# accounts DIR: the ordinary user's sub-ids, names and folders, alike in both flavours.
accounts() {
	echo 'user:100000:65536' | tee "$1/etc/subuid" >"$1/etc/subgid"
	echo vm >"$1/etc/hostname"
	printf '127.0.0.1 localhost vm\n::1 localhost\n' >"$1/etc/hosts"
	mkdir -p "$1/out" "$1/share" "$1/lib/modules"
	chmod 1777 "$1/out"
}

# The minimal flavour: busybox, and programs of this machine with their libraries.
needed='bash dash newuidmap newgidmap setpriv unshare nsenter'
wanted='prlimit slirp4netns pasta passt fuse-overlayfs fusermount3 crun runc strace ip nft iptables setcap getcap'

# programs prints the needed ones and those of the wanted that are installed here.
programs() {
	local name
	for name in $needed; do type -P "$name" || die "this machine lacks $name (packages dash, uidmap, util-linux)"; done
	for name in $wanted; do type -P "$name" || true; done
}

# add_program DIR FILE copies it and its libraries.
add_program() {
	local lib
	rm -f "$1/bin/${2##*/}"
	cp -pL "$2" "$1/usr/bin/"
	for lib in $(ldd "$2" 2>/dev/null | grep -o '/[^ ]*'); do
		[ -e "$1$lib" ] || install -D -p "$lib" "$1$lib"
	done
}

add_busybox() {
	local name
	cp "$(readlink -f "$(type -P busybox)")" "$1/bin/busybox"
	for name in $(busybox --list); do
		[ "$name" = busybox ] || ln -s busybox "$1/bin/$name"
	done
}

build_minimal() {
	local list files file tmp
	list=$(programs) || exit 125
	mapfile -t files <<<"$list"
	root_dir=$cache/root/minimal-$({ cat "$here/roots.sh" && stat -c '%n %s %Y' "${files[@]}"; } | checksum)
	[ ! -e "$root_dir/ready" ] || { hold "$root_dir" && return; }
	say "building the minimal root file system"
	rm -rf "$root_dir"
	tmp=$root_dir/tmp
	mkdir -p "$tmp"/{proc,sys,dev,run,tmp,root,home/user,etc,mnt,opt,srv,var/tmp,var/lib,bin,usr/bin,usr/sbin,usr/lib}
	chmod 1777 "$tmp/tmp" "$tmp/var/tmp"
	add_busybox "$tmp"
	for file in "${files[@]}"; do add_program "$tmp" "$file"; done
	ln -sf ../usr/bin/dash "$tmp/bin/sh" # busybox's runs its own applets, whatever PATH says
	printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n' >"$tmp/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\n' >"$tmp/etc/group"
	install -m 600 /dev/null "$tmp/etc/shadow"
	printf 'passwd: files\ngroup: files\nhosts: files\n' >"$tmp/etc/nsswitch.conf"
	: >"$tmp/etc/resolv.conf"
	accounts "$tmp"
	chown -R 0:0 "$tmp"
	chown 1000:1000 "$tmp/home/user"
	for file in newuidmap newgidmap fusermount3; do # chown(2) drops set-uid bits
		[ ! -e "$tmp/usr/bin/$file" ] || chmod 4755 "$tmp/usr/bin/$file"
	done
	image "$tmp" "$root_dir/root.ext4" 1024
	rm -rf "$tmp"
	touch "$root_dir/ready"
	hold "$root_dir"
}

# The systemd flavour: a small Debian, with what rootless containers are started by and from.
systemd_release=trixie
systemd_packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,udev,kmod,iproute2,procps,uidmap
systemd_packages+=,slirp4netns,passt,fuse-overlayfs,fuse3,crun,podman,netavark,aardvark-dns,nftables,iptables
systemd_packages+=,ca-certificates,less,strace,busybox-static,util-linux,login,login.defs,passwd

# Units that a machine which lives for one command does without.
unneeded='getty@tty1.service serial-getty@ttyS0.service getty.target systemd-networkd.service
	systemd-resolved.service systemd-timesyncd.service systemd-journal-flush.service
	systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-hwdb-update.service
	systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket
	systemd-udevd-kernel.socket systemd-udev-load-credentials.service modprobe@.service
	systemd-modules-load.service kmod-static-nodes.service systemd-random-seed.service
	systemd-sysusers.service systemd-pstore.service systemd-remount-fs.service
	systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-machine-id-commit.service
	systemd-firstboot.service systemd-boot-random-seed.service systemd-rfkill.socket
	systemd-ask-password-console.path systemd-ask-password-wall.path systemd-tpm2-setup.service
	systemd-tpm2-setup-early.service systemd-pcrextend.socket systemd-pcrlock.socket
	systemd-mountfsd.socket systemd-nsresourced.socket systemd-creds.socket systemd-bootctl.socket
	systemd-sysext.socket systemd-hostnamed.socket systemd-importd.socket
	sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount dev-hugepages.mount
	ldconfig.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer
	e2scrub_all.timer e2scrub_reap.service systemd-tmpfiles-clean.timer nftables.service
	systemd-journal-catalog-update.service systemd-update-done.service systemd-initctl.socket
	systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup-dev-early.service
	systemd-user-sessions.service netavark-dhcp-proxy.service netavark-dhcp-proxy.socket'

# debian DIR LOG installs the packages there. Those fetched before come from the cache and go back to it.
debian() {
	local debs=$cache/apt/$systemd_release/archives uri
	apt_of "$systemd_release" true
	TMPDIR=${2%/*} mmdebstrap --quiet --mode=root --variant=minbase --include="$systemd_packages" \
		--aptopt='Apt::Install-Recommends "false"' --skip=download/empty,essential/unlink \
		--setup-hook="mkdir -p \"\$1/var/cache/apt/archives\" && cp \"$debs\"/*.deb \"\$1/var/cache/apt/archives/\" || true" \
		--customize-hook="cp -u \"\$1\"/var/cache/apt/archives/*.deb \"$debs/\"" \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		"$systemd_release" "$1" "$cache/apt/$systemd_release/sources.list" >"$2" 2>&1 ||
		{ tail -n 40 "$2" >&2 && die "mmdebstrap failed"; }
	rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*
}

build_systemd() {
	root_dir=$cache/root/systemd-$(checksum <"$here/roots.sh")
	[ ! -e "$root_dir/ready" ] || { hold "$root_dir" && return; }
	say "building the systemd root file system (a minute or two)"
	rm -rf "$root_dir"
	local tmp=$root_dir/tmp unit
	mkdir -p "$root_dir"
	debian "$tmp" "$root_dir/log"
	chroot "$tmp" useradd -m -u 1000 -s /bin/bash user
	accounts "$tmp"
	echo 0123456789abcdef0123456789abcdef >"$tmp/etc/machine-id" # not a first boot
	mkdir -p "$tmp/var/lib/systemd/linger" "$tmp/etc/systemd/system/user@.service.d"
	: >"$tmp/var/lib/systemd/linger/user"
	printf '[Service]\nDelegate=cpu cpuset io memory pids\n' >"$tmp/etc/systemd/system/user@.service.d/delegate.conf"
	for unit in $unneeded; do ln -sf /dev/null "$tmp/etc/systemd/system/$unit"; done
	rm -f "$tmp"/etc/systemd/system/{*.wants,getty.target.wants}/podman*
	: >"$tmp/etc/fstab"
	printf '[Journal]\nStorage=volatile\nForwardToConsole=no\n' >"$tmp/etc/systemd/journald.conf"
	image "$tmp" "$root_dir/root.ext4" 2048
	rm -rf "$tmp"
	touch "$root_dir/ready"
	hold "$root_dir"
}
