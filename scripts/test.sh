#!/usr/bin/env bash
# Runs every test, stage by stage, and ends with a table and the line "N passed, N failed".
#
#   scripts/test.sh [full]      full: also the long tests behind the feature `full`
#
# A failed stage does not stop the next one. A stage of tests that ran none has failed:
# a check that cannot fail is no check.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

case ${1:-} in
    '') fleet_features=() ;;
    full) fleet_features=(--features full) ;;
    *)
        echo "usage: scripts/test.sh [full]" >&2
        exit 2
        ;;
esac

# Setup puts a Node there only where the machine's own is missing or too old.
export PATH=$tools/bin:$PATH
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=$tools/bin/wasm-bindgen-test-runner

log=$(mktemp)
trap 'rm -f "$log"' EXIT

rows=()
passed_total=0
failed_total=0

# show NAME COMMAND...: shows the output as it comes and keeps a copy in $log.
show() {
    printf '\n== %s\n' "$1"
    shift
    "$@" 2>&1 | tee "$log"
}

# Each test program ends with "test result: ok. 3 passed; 0 failed; …".
sum_results() {
    sed -n 's/.*test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$log" |
        awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }'
}

# record NAME PASSED FAILED SECONDS NOTE
record() {
    rows+=("$(printf '%-28s %7s %7s %8s  %s' "$@")")
    failed_total=$((failed_total + $3))
}

test_stage() {
    local name=$1 started=$SECONDS status=0 note='' passed failed
    show "$@" || status=$?
    read -r passed failed < <(sum_results)
    # Trouble that no test reported (it did not compile, a test program died) counts as one.
    if [ "$failed" -eq 0 ] && [ "$status" -ne 0 ]; then
        failed=1 note="ended with status $status"
    elif [ "$((passed + failed))" -eq 0 ]; then
        failed=1 note='ran no tests'
    fi
    passed_total=$((passed_total + passed))
    record "$name" "$passed" "$failed" $((SECONDS - started)) "$note"
}

build_stage() {
    local name=$1 started=$SECONDS failed=0 note=''
    show "$@" || failed=1 note='did not build'
    record "$name" - "$failed" $((SECONDS - started)) "$note"
    return "$failed"
}

test_stage 'unit and Lua tests' \
    cargo test --release --no-fail-fast -p admission -p redis-sidecar

# --tests leaves out the examples in comments: the stage above has run them.
test_stage 'admission in Node' \
    cargo test --release --no-fail-fast -p admission --tests --target wasm32-unknown-unknown

if build_stage 'filter and programs' scripts/build.sh; then
    test_stage 'fleet tests' \
        cargo test --release --no-fail-fast -p fleet-tests "${fleet_features[@]}"
else
    # What lies in target/ is of an older tree: its answers would be about something else.
    record 'fleet tests' 0 1 0 'not run: there is no build'
fi

printf '\n%-28s %7s %7s %8s\n' stage passed failed seconds
printf '%s\n' "${rows[@]}" | sed 's/ *$//'
printf '\n%d passed, %d failed\n' "$passed_total" "$failed_total"
[ "$failed_total" -eq 0 ]
