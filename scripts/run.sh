#!/usr/bin/env bash
# Becomes the demo, so that its signals and its exit status are the demo's own.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

exec "$target_dir/release/demo" "$@"
