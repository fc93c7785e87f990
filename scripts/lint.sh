#!/usr/bin/env bash
# Checks everything that can be checked without running it. All checks run; the last line
# names those that failed.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

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
    cargo clippy --release --locked --all-targets --features fleet-tests/full -- -D warnings
}

clippy_filter() {
    cargo clippy --profile filter --locked -p filter --target wasm32-wasip1 -- -D warnings
}

# Names that the shared parts define for the verbs.
shared_lua_names() {
    cat lua/lib/*.lua lua/strategies/*.lua |
        sed -nE 's/^local (function )?([A-Za-z_][A-Za-z0-9_]*).*/\2/p' | sort -u
}

# The scripts are checked as Redis gets them, because a part alone uses names of other parts.
# A verb need not use all that a shared part defines, so exactly those names may stay unused.
lua_scripts() {
    local scripts=$target_dir/lua-scripts name ignore=()
    rm -rf "$scripts"
    mkdir -p "$scripts"
    cargo build --release || return
    "$target_dir/release/berth" scripts "$scripts" || return
    if ! compgen -G "$scripts/*.lua" >/dev/null; then
        echo "berth scripts wrote no script: nothing was checked"
        return 1
    fi
    for name in $(shared_lua_names); do
        ignore+=("211/$name")
    done
    luacheck --quiet --no-color --codes --ignore "${ignore[@]}" -- "$scripts"
}

# The other side of that leave: a shared name that no script uses is dead.
lua_shared_names() {
    local name uses dead=0
    for name in $(shared_lua_names); do
        uses=$(cat lua/*.lua lua/*/*.lua | sed 's/--.*//' | grep -cw -- "$name") || true
        if [ "$uses" -lt 2 ]; then
            echo "lua: $name is defined in a shared part and used nowhere"
            dead=1
        fi
    done
    return "$dead"
}

check 'format' cargo fmt --all --check
check 'clippy' clippy_native
check 'clippy of the filter' clippy_filter
check 'Lua scripts' lua_scripts
check 'Lua shared names' lua_shared_names
optional 'dependencies' cargo-deny 'cargo install cargo-deny --locked' cargo deny check
optional 'shell scripts' shellcheck 'apt-get install shellcheck' \
    shellcheck --external-sources .ci/run scripts/*.sh

if [ ${#failures[@]} -gt 0 ]; then
    printf '\nlint failed:'
    printf ' [%s]' "${failures[@]}"
    printf '\n'
    exit 1
fi
printf '\nlint passed\n'
