#!/usr/bin/env bash
# Runs every test and ends with a table and the line "N passed, N failed".
#
#   scripts/test.sh [full]      full: also the long tests behind the feature `full`
#
# First all is built, then cargo tests in one run all that runs on this machine, then the core is
# tested once more as WebAssembly, then guards are removed one at a time: all of the core's, and of the
# counters to each threat the first (full: all of them); at last, where a Docker engine answers, containers. A
# failed part does not stop the next one. A part that ran no test has failed: a check that cannot fail is
# no check.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
# shellcheck source=scripts/docker.sh
source scripts/docker.sh

case ${1:-} in
    '') features=() guards=(--sample) ;;
    full) features=(--features fleet-tests/full) guards=() ;;
    *)
        echo "usage: scripts/test.sh [full]" >&2
        exit 2
        ;;
esac

# Setup puts a Node there only where the machine's own is missing or too old.
export PATH=$tools/bin:$PATH
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=$tools/bin/wasm-bindgen-test-runner
# What cargo prints is read below, where colours would be in the way.
export CARGO_TERM_COLOR=never

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

# record NAME PASSED FAILED SECONDS NOTE
record() {
    rows+=("$(printf '%-28s %7s %7s %8s  %s' "$@")")
    passed_total=$((passed_total + $2))
    failed_total=$((failed_total + $3))
}

# sum_results PART: of the programs that belong to it, "PASSED FAILED DIED SECONDS".
#
# Cargo announces each program by its source, seen from its package:
#        Running unittests src/lib.rs (target/release/deps/admission-1f2e3d)
#        Running tests/admit.rs (target/release/deps/admit-4c5b6a)
#        Running fleet.rs (target/release/deps/fleet-7d8e9f)
#      Doc-tests admission
# Only the package of the fleet tests has its sources neither in src/ nor in tests/.
# Each program ends with
#   test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
# and one that does not has died, whatever its tests had said until then.
sum_results() {
    awk -v wanted="$1" '
        function begin(part) {
            died += unfinished
            mine = wanted == "all" || wanted == part
            unfinished = mine
        }
        /^ +Running .* \(.*\)$/ {
            source = $0
            sub(/^ +Running (unittests )?/, "", source)
            sub(/ \(.*$/, "", source)
            begin(source ~ /^(src|tests)\// ? "unit" : "fleet")
        }
        /^ +Doc-tests / { begin("unit") }
        mine && match($0, /test result: [A-Za-z]+\. [0-9]+ passed; [0-9]+ failed;/) {
            split(substr($0, RSTART), word, " ")
            passed += word[4]
            failed += word[6]
            unfinished = 0
            if (match($0, /finished in [0-9.]+s/)) {
                seconds += substr($0, RSTART + 12, RLENGTH - 13)
            }
        }
        END { printf "%d %d %d %.0f\n", passed, failed, died + unfinished, seconds }
    ' "$log"
}

# record_part NAME PART STATUS: what the run in $log, which ended with STATUS, says about a part.
record_part() {
    local name=$1 part=$2 status=$3 note='' passed failed died seconds
    read -r passed failed died seconds < <(sum_results "$part")
    if [ "$died" -gt 0 ]; then
        failed=$((failed + died)) note="$died test programs died"
    elif [ "$((passed + failed))" -eq 0 ]; then
        failed=1 note="ran no tests, status $status"
    fi
    record "$name" "$passed" "$failed" "$seconds" "$note"
}

# unexplained NAME STATUS FAILED-BEFORE: trouble that no test reported counts as one failure.
unexplained() {
    if [ "$2" -ne 0 ] && [ "$failed_total" -eq "$3" ]; then
        record "$1" 0 1 0 "ended with status $2"
    fi
}

native=(cargo test --release "${features[@]}")
# --lib: the examples in comments and the simulation have run natively.
node=(cargo test --release -p admission --lib --target wasm32-unknown-unknown)

# A filter that a header kills, for the tests of a VM's death. Beside the other, so that neither
# build makes the other's files old.
build_poison() {
    cargo build --profile filter -p filter --target wasm32-wasip1 --features poison \
        --target-dir "$target_dir/poison"
}

build() {
    scripts/build.sh && build_poison && "${native[@]}" --no-run && "${node[@]}" --no-run || return
    if docker_answers; then cargo test --release --test compose --no-run; fi
}

test_natively() {
    local status=0 before=$failed_total
    show 'unit, Lua and fleet' "${native[@]}" --no-fail-fast || status=$?
    record_part 'unit and Lua' unit "$status"
    record_part 'fleet' fleet "$status"
    unexplained 'unit, Lua and fleet' "$status" "$before"
}

test_in_node() {
    local status=0 before=$failed_total
    show 'core in Node' "${node[@]}" --no-fail-fast || status=$?
    record_part 'core in Node' all "$status"
    unexplained 'core in Node' "$status" "$before"
}

# A guard has passed if a test fails without it.
test_guards() {
    local status=0 seconds=$SECONDS removed=0 missed=1
    show 'without a guard' scripts/mutants.sh "${guards[@]}" || status=$?
    read -r removed missed < <(sed -n 's/^\([0-9]*\) guards, \([0-9]*\) missed$/\1 \2/p' "$log") || true
    if [ "$removed" -eq 0 ]; then
        record 'without a guard' 0 1 "$((SECONDS - seconds))" "status $status"
    else
        record 'without a guard' "$((removed - missed))" "$missed" "$((SECONDS - seconds))" ''
    fi
}

test_compose() {
    local status=0 before=$failed_total
    if ! docker_answers; then
        printf '\n== compose: not run, no Docker engine answers\n'
        record 'compose' 0 0 0 'not run: no Docker engine answers'
        return
    fi
    show 'compose' scripts/test-compose.sh || status=$?
    record_part 'compose' all "$status"
    unexplained 'compose' "$status" "$before"
}

if show 'build' build; then
    record 'build' 0 0 "$SECONDS" ''
    test_natively
    test_in_node
    test_guards
    test_compose
else
    # What lies in target/ is of an older tree: its answers would be about something else.
    record 'build' 0 1 "$SECONDS" 'failed, so nothing was tested'
fi

printf '\n%-28s %7s %7s %8s\n' part passed failed seconds
printf '%s\n' "${rows[@]}" | sed 's/ *$//'
printf '\n%d passed, %d failed\n' "$passed_total" "$failed_total"
[ "$failed_total" -eq 0 ]
