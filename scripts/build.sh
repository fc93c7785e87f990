#!/usr/bin/env bash
# Builds everything that runs: `berth`, `demo` and `demo-worker` for this machine, and the filter
# for Envoy.
#
# The programs always with --release and without -p, here as in lint.sh and test.sh: with another
# choice of packages cargo would choose other features of what they depend on, and build that anew.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

cargo build --release
cargo build --profile filter -p filter --target wasm32-wasip1
scripts/shrink.sh "$target_dir/wasm32-wasip1/filter/filter.wasm"
