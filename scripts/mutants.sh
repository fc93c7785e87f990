#!/usr/bin/env bash
# Shows that the tests bite: removes one guard at a time and expects its test to fail; see
# tests/mutants/main.rs. Ends with the line "N guards, N missed".
#
#   scripts/mutants.sh [--sample] [--only TEXT]      --sample: of the counters to each threat only the first
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

cargo build --release --bin mutants
exec "$target_dir/release/mutants" "$@"
