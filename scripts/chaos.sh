#!/usr/bin/env bash
# Becomes the chaos program, so that its exit status is the judgement.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

exec "$target_dir/release/chaos" "$@"
