#!/usr/bin/env bash
# Builds everything that runs: `berth`, `demo` and `demo-worker` for this machine, and the
# filter for Envoy. The programs always with
# --release, so that demo, tests and benchmarks share one build.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

cargo build --release
cargo build --profile filter -p filter --target wasm32-wasip1
