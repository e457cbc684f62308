#!/usr/bin/env bash
# Installs what only benchmarks and the race detector want: a C compiler, and the peers crun and bubblewrap.
# Benchmarks skip by name a peer that isn't there, so those needn't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
bash test/packages.sh gcc:gcc gcc:libc6-dev
bash test/packages.sh crun:crun bwrap:bubblewrap || echo "some peers are NOT INSTALLED: their benchmarks will be skipped" >&2
