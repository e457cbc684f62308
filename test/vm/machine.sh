# shellcheck shell=bash
# shellcheck disable=SC2154  # kernel_dir, root_dir and run are vm's, kernel.sh's and roots.sh's
# One machine: what its guest is told, its QEMU, and how it is saved and resumed. Sourced by vm.
#
# Files reach the guest in its initramfs (below /ctl) or, when it was saved before its command was known, on a disk
# named ctl; initramfs and runner put them into /run/vm. What comes back goes through virtio ports into files here: the
# command's out and err, what it left in /out as a tar archive, and the result, a line "exit CODE".

qemu_pid='' timed_out=''
# A saved machine keeps the sizes of its disks.
share_size=4G ctl_size=256M

clean_up() {
	[ -z "$qemu_pid" ] || kill -KILL "$qemu_pid" 2>/dev/null || true
	if [ "$keep" ]; then say "run folder: $run"; else rm -rf "$run"; fi
}

quote() { printf "'%s' " "${1//\'/\'\\\'\'}"; }

# disk NAME FILE HOW adds a disk that the guest finds by its serial number.
disk() { args+=(-drive "if=none,id=$1,format=raw,file=$2,$3" -device "virtio-blk-pci,drive=$1,serial=$1"); }

# machine ROOT HOW makes args, QEMU's for this run.
machine() {
	# shellcheck disable=SC2054  # the commas are QEMU's
	args=(-M q35 -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$mem"
		-nodefaults -no-user-config -no-reboot -display none -serial "file:$run/console"
		-kernel "$kernel_dir/vmlinux" -initrd "$run/initrd"
		-append "console=ttyS0 panic=-1 no_timer_check mitigations=off cgroup_no_v1=all net.ifnames=0 loglevel=4 systemd.show_status=0 ${kernel_args[*]-}"
		-device virtio-serial-pci)
	disk root "$1" "$2"
	disk modules "$kernel_dir/modules.ext4" readonly=on
	[ ! -e "$run/share.ext4" ] || disk share "$run/share.ext4" readonly=on
	[ ! -e "$run/ctl.ext4" ] || disk ctl "$run/ctl.ext4" readonly=on
	local port
	for port in out err result files; do
		: >"$run/$port"
		args+=(-chardev "file,id=$port,path=$run/$port" -device "virtserialport,chardev=$port,name=$port")
	done
	[ -z "$net" ] || args+=(-netdev "user,id=net,restrict=on" -device "virtio-net-pci,netdev=net,romfile=")
	args+=("${qemu_args[@]}")
}

# start_qemu ARG... in the background, as qemu_pid. It dies with us, however we do.
start_qemu() {
	TMPDIR=$run setpriv --pdeathsig KILL -- qemu-system-x86_64 "${args[@]}" "$@" </dev/null >"$run/qemu.log" 2>&1 &
	qemu_pid=$!
}

# failed TEXT: the end of a machine that gave no result.
failed() {
	cat "$run/qemu.log" >&2
	sed 's/^/console: /' "$run/console" >&2 || true
	die "$1"
}

# boot_files: what every guest finds in /run/vm.
boot_files() {
	boot_ctl=$run/boot/ctl
	mkdir -p "$boot_ctl"
	cp "$here/guest/runner" "$boot_ctl/runner"
	if [ "$flavour" = minimal ]; then
		install -m 755 "$here/guest/minimal-init" "$boot_ctl/init"
		echo /run/vm/init >"$boot_ctl/init-path"
	else
		echo /sbin/init >"$boot_ctl/init-path"
		mkdir -p "$boot_ctl/units/multi-user.target.wants"
		cp "$here/guest/vm-run.service" "$boot_ctl/units/"
		ln -s ../vm-run.service "$boot_ctl/units/multi-user.target.wants/vm-run.service"
	fi
}

# initrd: the kernel's initramfs with this run's files behind it.
initrd() {
	chmod -R go=rX "$run/boot"
	{ cat "$kernel_dir/initramfs.cpio" && cpio_of "$run/boot"; } >"$run/initrd"
}

# run_files DIR: what the guest of this run is told.
run_files() {
	# shellcheck disable=SC2016  # it is the guest's shell that expands this
	local word where='"$HOME"'
	[ -z "$workdir" ] || where=$(quote "$workdir")
	mkdir -p "$1"
	echo "flavour=$flavour who=$who net=$net share=${shares[*]:+1} back=${outdir:+1} time=$EPOCHSECONDS" >"$1/config"
	printf '%s\n' "${sysctls[@]}" >"$1/sysctl"
	{
		for word in "${env[@]}"; do printf 'export %s=%s\n' "${word%%=*}" "$(quote "${word#*=}")"; done
		printf 'cd %s || exit 125\n' "$where"
		printf 'exec '
		for word in "${command[@]}"; do quote "$word"; done
		echo
	} >"$1/command"
	if [ "$stdin" ]; then cat >"$1/stdin"; else : >"$1/stdin"; fi
	chmod -R go=rX "$1"
}

# share_image: everything shared as one file system.
share_image() {
	[ ${#shares[@]} -gt 0 ] || return 0
	local pair path name
	mkdir "$run/share"
	for pair in "${shares[@]}"; do
		path=${pair%%:*} name=${pair#"$path"}
		[ -e "$path" ] || die "can't share $path: no such file or folder"
		[ -d "$path" ] || [ "$name" ] || die "a file is shared as $path:NAME"
		mkdir -p "$run/share/$(dirname "/${name#:}")"
		if [ -d "$path" ]; then path+=/. && mkdir -p "$run/share/${name#:}"; fi
		cp -a "$path" "$run/share/${name#:}"
	done
	chmod -R a+rX "$run/share"
	image "$run/share" "$run/share.ext4"
	rm -rf "$run/share"
}

# build_warm saves a machine that was booted up to where it would start a command.
build_warm() {
	local key
	key=$({ cat "$here/machine.sh" "$here"/guest/* && echo "$kernel_dir $root_dir $net ${kernel_args[*]-} ${qemu_args[*]-}" &&
		stat -c %Y "$kernel_dir/ready" "$root_dir/ready" && qemu-system-x86_64 --version; } | checksum)
	saved=$cache/warm/$kernel-$flavour-$cpus-$mem-$key
	[ ! -e "$saved/ready" ] || { hold "$saved" && return; }
	say "booting and saving a $flavour machine with kernel $kernel"
	rm -rf "$saved"
	mkdir -p "$saved"
	cp --sparse=always "$root_dir/root.ext4" "$saved/root.ext4"
	boot_files
	touch "$boot_ctl/warm"
	initrd
	truncate -s "$share_size" "$run/share.ext4"
	truncate -s "$ctl_size" "$run/ctl.ext4"
	machine "$saved/root.ext4" cache=unsafe
	save
	rm -r "${run:?}/boot" "$run"/{share,ctl}.ext4
	touch "$saved/ready"
	hold "$saved"
}

# save runs the machine until it waits for a command, and writes its state.
save() {
	local monitor answers tries=0
	mkfifo "$run/monitor.in" "$run/monitor.out"
	start_qemu -chardev "pipe,id=monitor,path=$run/monitor" -mon monitor,mode=readline
	exec {monitor}<>"$run/monitor.in" {answers}<>"$run/monitor.out"
	until grep -q ready "$run/result"; do
		sleep 0.2
		tries=$((tries + 1))
		[ $tries -lt $((timeout * 5)) ] || failed "the machine was not up after $timeout s"
		kill -0 "$qemu_pid" 2>/dev/null || failed "the machine to be saved ended"
	done
	sleep 1
	printf 'migrate_set_parameter max-bandwidth 100G\nmigrate "exec:cat > %s"\nquit\n' "$saved/state" >&"$monitor"
	wait "$qemu_pid" || true
	qemu_pid=''
	exec {monitor}>&- {answers}>&-
	[ -s "$saved/state" ] || failed "the machine was not saved"
}

# prepare makes the files of this run, and args.
prepare() {
	boot_files
	share_image
	if [ "$warm" ]; then
		touch "$boot_ctl/warm"
		run_files "$run/ctl"
		image "$run/ctl" "$run/ctl.ext4"
		truncate -s "$ctl_size" "$run/ctl.ext4"
		truncate -s "$share_size" "$run/share.ext4"
		machine "$saved/root.ext4" snapshot=on
		args+=(-incoming "exec:cat '$saved/state'")
	else
		run_files "$boot_ctl"
		machine "$root_dir/root.ext4" snapshot=on
	fi
	initrd
}

# boot runs the machine to its end.
boot() {
	local watch tails=()
	booted=$EPOCHREALTIME
	start_qemu
	if [ "$live" ]; then
		tail -q -s 0.1 -c +1 --pid="$qemu_pid" -f "$run/out" &
		tails+=($!)
		tail -q -s 0.1 -c +1 --pid="$qemu_pid" -f "$run/err" >&2 &
		tails+=($!)
	fi
	# It ends with QEMU, or with code 124.
	timeout "$timeout" tail -s 0.1 --pid="$qemu_pid" -f /dev/null &
	watch=$!
	wait "$watch" || timed_out=1
	[ -z "$timed_out" ] || kill -KILL "$qemu_pid"
	wait "$qemu_pid" "${tails[@]}" 2>/dev/null || true
	qemu_pid=''
}

# report prints what came back and ends as the command did.
report() {
	local code
	code=$(sed -n 's/^exit \([0-9]*\)$/\1/p' "$run/result")
	[ "$live" ] || { cat "$run/out" && cat "$run/err" >&2; }
	if [ "$outdir" ] && [ -s "$run/files" ]; then
		mkdir -p "$outdir"
		tar -C "$outdir" --no-same-owner -xf "$run/files" || say "/out came back incomplete"
	fi
	if [ "$verbose" ] || { [ "$console" ] && [ "$code" != 0 ]; }; then sed 's/^/console: /' "$run/console" >&2; fi
	[ -z "$verbose" ] || say "the machine ran $(since "$booted") s, all took $(since "$start") s"
	[ -z "$code" ] || exit "$code"
	[ -z "$timed_out" ] || { tail -n 20 "$run/console" >&2; say "timed out after $timeout s"; exit 124; }
	failed "the machine ended without a result"
}
