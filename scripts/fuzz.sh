#!/usr/bin/env bash
# Looks for input that harms, for some minutes with each target.
#
#   scripts/fuzz.sh MINUTES [TARGET...]      default: all of them
#
# The targets of fuzz/src/lib.rs get their inputs from libFuzzer. New ones are kept under target/fuzz, where the
# next run goes on from; a finding belongs into fuzz/corpus, with the fix. `routes`, `scripts` and `description`
# are the tests of these names, with another seed each time: a real Redis is behind them, where no coverage leads.
# The last lines are a table: executions, and findings.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

minutes=${1:?usage: scripts/fuzz.sh MINUTES [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(ls fuzz/corpus)
    targets+=(routes scripts description)
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
mkdir -p "$build"
RUSTFLAGS=$flags cargo build --release -p fuzz --features coverage --bin fuzz \
    --target "$host" --target-dir "$build"

# guided TARGET: says how it goes, and at last its figures.
guided() {
    local found=$build/found/$1
    mkdir -p "$build/corpus/$1" "$found"
    BERTH_FUZZ_TARGET=$1 "$build/$host/release/fuzz" \
        "$build/corpus/$1" "fuzz/corpus/$1" \
        -max_total_time="$((minutes * 60))" -max_len=70000 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$found/" 2>&1
}

# For the tests among them; without -p, as in scripts/build.sh.
cargo build --release

# drawn TEST-PROGRAM NAME: a test that draws for itself.
drawn() {
    BERTH_FUZZ_SECONDS=$((minutes * 60)) BERTH_ROUTES_SECONDS=$((minutes * 60)) \
        BERTH_FUZZ_SEED=$(date +%s) \
        cargo test --release --test "$1" -- --nocapture "$2" 2>&1
}

run() {
    case $1 in
        routes) drawn sidecar fuzz::routes ;;
        scripts) drawn sidecar fuzz::scripts::hostile ;;
        description) drawn fleet description:: ;;
        *) guided "$1" ;;
    esac
}

rows=()
failed=0
for target in "${targets[@]}"; do
    printf '\n== %s, %s minutes\n' "$target" "$minutes"
    log=$build/$target.log
    # A finding must not end the others, and grep may have nothing to show.
    set +e
    run "$target" | tee "$log" |
        grep --line-buffered -E '^#[0-9]+.*(pulse|DONE)|panicked|^seed|executions|generated|SUMMARY|Base64'
    status=${PIPESTATUS[0]}
    set -e
    executions=$(grep -oE 'executed_units: *[0-9]+|[0-9]+ (executions|generated)' "$log" | grep -oE '[0-9]+' | tail -n 1)
    rows+=("$(printf '%-12s %12s  %s' "$target" "${executions:-0}" \
        "$([ "$status" -eq 0 ] && echo none || echo "see $log")")")
    [ "$status" -eq 0 ] || failed=$((failed + 1))
done

printf '\n%-12s %12s  %s\n' target executions findings
printf '%s\n' "${rows[@]}"
[ "$failed" -eq 0 ]
