#!/usr/bin/env bash
# rootfs.sh DIR
#
# Makes DIR a small root for containers, owned by whoever runs this: a static busybox, a link for each of its
# commands, and the few files that programs expect. A DIR that already is one is left as it is.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
umask 022

root=$1
[ ! -e "$root/etc/passwd" ] || exit 0   # written last

mkdir -p "$root"/{bin,dev,etc,home,mnt,proc,root,run,sys,tmp,usr,var/tmp}
chmod 1777 "$root/tmp" "$root/var/tmp"
ln -sfn bin "$root/sbin"
ln -sfn ../bin "$root/usr/bin"
ln -sfn ../bin "$root/usr/sbin"

install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for command in $(busybox --list); do
	[ "$command" = busybox ] || ln -sf busybox "$root/bin/$command"
done

printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
