#!/usr/bin/env bash
# shrink.sh FILTER: what rustc's own optimiser leaves in the filter, a seventh of it. In place; cargo puts its own
# file back at the next build, so this is done after each.
#
# The SDK exports a function for everything that Envoy could tell a module. What the Envoy files do not let Envoy
# call (capability_restriction_config) is taken out, with all that only it needs.
set -euo pipefail

filter=$1
cd "$(dirname "$0")/.."
# The features are those that rustc compiles for.
features=(--enable-bulk-memory --enable-sign-ext --enable-mutable-globals
    --enable-nontrapping-float-to-int --enable-multivalue --enable-reference-types)

called=$(grep -oE '^ +proxy_on_[a-z_]+: \{\}' envoy/envoy.yaml | grep -oE 'proxy_on_[a-z_]+')
for export in memory _initialize proxy_abi_version_0_2_1 proxy_on_memory_allocate $called; do
    printf '{"name": "%s", "root": true, "export": "%s"}\n' "$export" "$export"
done | paste -sd, | sed 's/^/[/; s/$/]/' >"$filter.exports"

wasm-metadce "${features[@]}" --graph-file "$filter.exports" "$filter" -o "$filter.smaller" >/dev/null
wasm-opt -Oz "${features[@]}" "$filter.smaller" -o "$filter.smaller"
mv "$filter.smaller" "$filter"
rm "$filter.exports"
