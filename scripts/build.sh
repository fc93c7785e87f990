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

# What rustc's own optimiser leaves. The features are those that rustc compiles for; cargo puts its own file
# back at the next build, so this is done each time.
filter=$target_dir/wasm32-wasip1/filter/filter.wasm
wasm-opt -O3 --enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
    --enable-nontrapping-float-to-int --enable-multivalue --enable-reference-types \
    "$filter" -o "$filter.smaller"
mv "$filter.smaller" "$filter"
