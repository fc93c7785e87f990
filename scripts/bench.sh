#!/usr/bin/env bash
# Measures what Berth costs beside its peers, and writes docs/benchmarks.md from it.
#
#   scripts/bench.sh              everything, then the page; fails at the end if a figure was missed
#   scripts/bench.sh PART         one of: choose sewt proxy sidecar websocket scale
#   scripts/bench.sh page         the page, from what the parts have left in target/bench
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

part() {
    case $1 in
        choose | sewt) cargo bench --quiet --bench "$1" ;;
        *) cargo bench --quiet --bench price -- "$1" ;;
    esac
}

if [ $# -gt 0 ]; then
    part "$1"
    exit
fi

# So that no part's time is the compiler's.
cargo bench --quiet --no-run --bench choose --bench sewt --bench price
missed=()
for name in choose sewt proxy sidecar websocket scale; do
    printf '\n== %s\n' "$name"
    began=$SECONDS
    part "$name" || missed+=("$name")
    echo "$name took $((SECONDS - began)) s"
done
part page
echo
echo 'docs/benchmarks.md is written'
if [ ${#missed[@]} -gt 0 ]; then
    echo "below what is asked, or failed: ${missed[*]}"
    exit 1
fi
