#!/usr/bin/env bash
# Raises compose.yaml again and again, breaks it, and removes all of it: also after a failure, and after Ctrl-C.
# Arguments are those of the test program: a part of a test's name, say.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
# shellcheck source=scripts/docker.sh
source scripts/docker.sh

# Every project of this run begins with it.
export BERTH_COMPOSE_PROJECT=berth-test-$$

# Tests remove what they raise; what is left is of one that was killed.
remove_projects() {
    local kind project label=com.docker.compose.project
    for project in $(docker ps --all --filter "label=$label" --format "{{.Label \"$label\"}}" | sort -u) \
        $(docker network ls --filter "label=$label" --format "{{.Label \"$label\"}}" | sort -u); do
        [[ $project == "$BERTH_COMPOSE_PROJECT"-* ]] || continue
        docker ps --all --quiet --filter "label=$label=$project" | xargs -r docker rm --force --volumes >/dev/null
        for kind in network volume; do
            docker "$kind" ls --quiet --filter "label=$label=$project" | xargs -r docker "$kind" rm >/dev/null
        done
    done
}
trap remove_projects EXIT

scripts/images.sh
# One at a time: a busy machine would look like an outage.
cargo test --release --test compose -- --test-threads=1 --nocapture "$@"
