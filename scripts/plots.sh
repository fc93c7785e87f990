#!/usr/bin/env bash
# Runs every built-in scenario of `berth simulate`, draws its plots into docs/plots/, and puts its
# tables into docs/choosing-a-strategy.md, between the scenario's two marks.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

page=docs/choosing-a-strategy.md
mkdir -p docs/plots
cargo build --release --bin berth

tables=$(mktemp)
trap 'rm -f "$tables"' EXIT

"$target_dir/release/berth" simulate --list | while read -r scenario _; do
    "$target_dir/release/berth" simulate --scenario "$scenario" --svg "docs/plots/$scenario.svg" >"$tables"
    begin="<!-- berth simulate --scenario $scenario -->"
    if ! grep -qFx -- "$begin" "$page"; then
        echo "$page has no line $begin: the tables of $scenario have no place" >&2
        exit 1
    fi
    awk -v begin="$begin" -v tables="$tables" '
        $0 == begin { print; print ""; while ((getline line < tables) > 0) print line; print ""; skip = 1 }
        $0 == "<!-- end -->" { skip = 0 }
        !skip { print }
    ' "$page" >"$page.new"
    mv "$page.new" "$page"
done
