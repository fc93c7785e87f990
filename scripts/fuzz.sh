#!/usr/bin/env bash
# Lets libFuzzer look for inputs that harm, for some minutes with each target.
#
#   scripts/fuzz.sh MINUTES [TARGET...]      default: every target of fuzz/src/lib.rs
#
# New inputs are kept under target/fuzz, where the next run goes on from; a finding is shown as text,
# and belongs into fuzz/corpus, with the fix. The last lines are a table: executions, and findings.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

minutes=${1:?usage: scripts/fuzz.sh MINUTES [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(ls fuzz/corpus)
fi

# The compiler's own coverage passes, as cargo-fuzz asks for them, but without a sanitizer: there is no
# unsafe code to watch, and a sanitizer would need a nightly compiler. --target keeps all this away from
# build scripts and macros.
host=$(rustc -vV | sed -n 's/^host: //p')
flags='-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks'
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$option"
done
build=$target_dir/fuzz
RUSTFLAGS=$flags cargo build --release -p fuzz --features coverage --bin fuzz \
    --target "$host" --target-dir "$build"

# fuzz TARGET: what libFuzzer says every minute or so, and at last its figures.
fuzz() {
    local found=$build/found/$1
    mkdir -p "$build/corpus/$1" "$found"
    BERTH_FUZZ_TARGET=$1 "$build/$host/release/fuzz" \
        "$build/corpus/$1" "fuzz/corpus/$1" \
        -max_total_time="$((minutes * 60))" -max_len=70000 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$found/" 2>&1
}

rows=()
failed=0
for target in "${targets[@]}"; do
    printf '\n== %s, %s minutes\n' "$target" "$minutes"
    log=$build/$target.log
    status=0
    fuzz "$target" | tee "$log" | grep --line-buffered -E '^(#[0-9]+.*(pulse|DONE)|thread|stat::|==|SUMMARY|Base64)' || true
    status=${PIPESTATUS[0]}
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d' ' -f2)
    rows+=("$(printf '%-10s %12s %8s  %s' "$target" "${executions:-0}" "${edges:-0}" \
        "$([ "$status" -eq 0 ] && echo none || echo "see $build/found/$target")")")
    [ "$status" -eq 0 ] || failed=$((failed + 1))
done

printf '\n%-10s %12s %8s  %s\n' target executions edges findings
printf '%s\n' "${rows[@]}"
[ "$failed" -eq 0 ]
