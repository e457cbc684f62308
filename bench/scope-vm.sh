#!/usr/bin/env bash
# scope-vm.sh [ROUNDS]
#
# What a scope of systemd's user manager costs: `wolffia run --cgroup-manager systemd` against `crun --systemd-cgroup run`,
# with the same memory limit, in a virtual machine with systemd (test/vm), as an ordinary user. Both ask systemd by D-Bus.
# Interleaved; it prints the medians and their ratio. Everything is slow in an emulated machine: the ratio is what counts.
# Needs root, to build the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-15}
work=$(mktemp -d /tmp/wolffia-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/bin"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/bin/" ./cmd/...
bash test/rootfs.sh "$work/rootfs" >/dev/null

cat >"$work/guest.sh" <<'GUEST'
set -eu
rounds=$1
mkdir -p ~/bundle
cp -a /share/rootfs ~/bundle/rootfs
cd ~/bundle
crun spec --rootless
sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"true"/; s/"resources": {/"resources": { "memory": { "limit": 67108864 },/' config.json
by_crun() { crun --systemd-cgroup run "$1" </dev/null; }
by_wolffia() { /share/bin/wolffia run --memory 64m --cgroup-manager systemd --map single --rootfs ~/bundle/rootfs --read-only -- true; }
plain() { /share/bin/wolffia run --map single --rootfs ~/bundle/rootfs --read-only -- true; }
timed() {
	local start end
	start=$(date +%s%N)
	"$@"
	end=$(date +%s%N)
	echo $((end - start))
}
for i in $(seq "$rounds"); do
	for what in by_crun by_wolffia plain; do echo "$what $(timed $what "c$i")"; done
done
GUEST

bash test/vm/vm run --kernel 6.12 --flavour systemd --user --warm --timeout 900 --share "$work/bin:bin" --share "$work/rootfs:rootfs" \
	--share "$work/guest.sh:guest.sh" -- bash /share/guest.sh "$rounds" | awk '
	{ n[$1]++; v[$1, n[$1]] = $2 / 1e6 }
	function median(k,   i, j, t) {
		for (i = 1; i <= n[k]; i++) for (j = i + 1; j <= n[k]; j++) if (v[k, j] < v[k, i]) { t = v[k, i]; v[k, i] = v[k, j]; v[k, j] = t }
		return v[k, int((n[k] + 1) / 2)]
	}
	END {
		w = median("by_wolffia"); c = median("by_crun"); p = median("plain")
		printf "rounds %d\nwolffia run --memory 64m --cgroup-manager systemd   %.1f ms\ncrun --systemd-cgroup run                          %.1f ms\nratio                                              %.2f\nwolffia run without a limit                        %.1f ms\n", n["by_crun"], w, c, w / c, p
	}'
