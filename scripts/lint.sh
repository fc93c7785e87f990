#!/usr/bin/env bash
# Checks everything that can be checked without running it. All checks run; the last line
# names those that failed.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

# Setup puts cargo-deny and promtool there.
export PATH=$tools/bin:$PATH

failures=()

check() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    "$@" || failures+=("$name")
}

# optional NAME PROGRAM HOW-TO-GET-IT COMMAND...: a check for those who have the program.
optional() {
    local name=$1 program=$2 how=$3
    shift 3
    if command -v "$program" >/dev/null; then
        check "$name" "$@"
    else
        printf '\n== %s: skipped, there is no %s here (%s)\n' "$name" "$program" "$how"
    fi
}

# --locked: a Cargo.lock that does not fit the manifests fails here and not at a user's.
clippy_native() {
    # The tests of containers are in nobody's defaults.
    cargo clippy --release --locked --all-targets --test compose --features fleet-tests/full -- -D warnings
}

clippy_filter() {
    cargo clippy --profile filter --locked -p filter --target wasm32-wasip1 -- -D warnings
}

# The Lua is checked as Redis gets it, because a file alone uses names of other files.
lua_library() {
    local library=$target_dir/lua-library
    rm -rf "$library"
    cargo build --release || return
    "$target_dir/release/berth" scripts "$library" || return
    if [ ! -s "$library/berth.lua" ]; then
        echo "berth scripts wrote no library: nothing was checked"
        return 1
    fi
    luacheck --quiet --no-color --codes -- "$library"
}

# luacheck does not see what a module offers and nobody takes: such a function is dead.
lua_unused() {
    local name dead=0
    while read -r name; do
        if [ "$(cat lua/*.lua lua/lib/*.lua lua/strategies/*.lua redis-sidecar/src/library.rs |
            grep -cE "(^|[^A-Za-z])${name/./\\.}([^a-z_]|\$)")" -lt 2 ]; then
            echo "$name is used nowhere"
            dead=1
        fi
    done < <(sed -nE 's/^function ([A-Z][a-z]+\.[a-z_]+)\(.*/\1/p' lua/lib/*.lua)
    return $dead
}

# Cargo fetches what is not on this machine yet; cargo-deny itself needs no network.
dependencies() {
    cargo fetch --locked --quiet || return
    cargo deny --offline --locked check --hide-inclusion-graph licenses bans sources
}

# The database of advisories is a repository on the internet, which not everyone can reach.
advisories() {
    if ! timeout 60 cargo deny fetch db >/dev/null 2>&1; then
        echo 'skipped: the database of advisories cannot be had from here, so nobody looked for known holes'
        return
    fi
    cargo deny --locked check --hide-inclusion-graph advisories
}

alert_rules() {
    promtool check rules observability/alerts.yaml && promtool test rules observability/alerts.test.yaml &&
        promtool check config --syntax-only observability/prometheus.yaml
}

check 'format' cargo fmt --all --check
check 'clippy' clippy_native
check 'clippy of the filter' clippy_filter
check 'Lua library' lua_library
check 'Lua functions in use' lua_unused
check 'dependencies' dependencies
check 'advisories' advisories
optional 'alert rules' promtool 'make setup' alert_rules
optional 'shell scripts' shellcheck 'apt-get install shellcheck' \
    shellcheck --external-sources .ci/run scripts/*.sh docker/*.sh docker/http-ok docker/*-start \
    docker/make-secrets docker/redis/*

if [ ${#failures[@]} -gt 0 ]; then
    printf '\nlint failed:'
    printf ' [%s]' "${failures[@]}"
    printf '\n'
    exit 1
fi
printf '\nlint passed\n'
