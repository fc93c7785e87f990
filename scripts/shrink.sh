#!/usr/bin/env bash
# shrink.sh FILTER: what rustc's own optimiser leaves in the filter, a seventh of it. In place; cargo puts its own
# file back at the next build, so this is done after each.
set -euo pipefail
filter=$1

# The features are those that rustc compiles for.
wasm-opt -O3 --enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
    --enable-nontrapping-float-to-int --enable-multivalue --enable-reference-types \
    "$filter" -o "$filter.smaller"
mv "$filter.smaller" "$filter"
