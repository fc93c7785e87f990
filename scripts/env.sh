# shellcheck shell=bash
# Sourced by every other script: where things are. Nothing here runs anything.
#
# These variables reach the demo and the tests. Each may be set by the caller.
#   ENVOY_BIN          the Envoy to start
#   BERTH_FILTER_WASM  the filter that Envoy loads
#   BERTH_BIN_DIR      the directory of `berth`, `demo` and `demo-worker`
#   CARGO_TARGET_DIR   where cargo builds; the two above follow it
#   SCHEMATHESIS_BIN   what calls the sidecar by docs/openapi.yaml
#   REDIS_SERVER_BIN   the redis-server of the demo and the tests; unset: the one on PATH

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top" || exit 1

tools=$top/.tools

target_dir=${CARGO_TARGET_DIR:-target}
case $target_dir in
    /*) ;;
    *) target_dir=$top/$target_dir ;;
esac

# A link of one name, so that nothing but envoy.requirements has to know the version.
envoy_default=$tools/bin/envoy

export ENVOY_BIN=${ENVOY_BIN:-$envoy_default}
export SCHEMATHESIS_BIN=${SCHEMATHESIS_BIN:-$tools/bin/schemathesis}
export BERTH_FILTER_WASM=${BERTH_FILTER_WASM:-$target_dir/wasm32-wasip1/filter/filter.wasm}
export BERTH_BIN_DIR=${BERTH_BIN_DIR:-$target_dir/release}

# Under `make -j` cargo would look for make's job server, which only a sub-make can reach.
unset MAKEFLAGS MFLAGS
