# shellcheck shell=bash
# Sourced by scripts that use Docker: whether it is there, and whose images it can have.

# What docker/Dockerfile begins with, unless the caller says otherwise.
base_image=${BERTH_BASE_IMAGE:-debian:bookworm-slim}
build_image=${BERTH_BUILD_IMAGE:-rust:1.95.0-bookworm}
# Made with debootstrap where those cannot be had.
own_base_image=berth-base:bookworm
tag=${BERTH_TAG:-dev}
images=(redis sidecar worker envoy)

docker_answers() { timeout 20 docker info >/dev/null 2>&1; }

# The command for compose.yaml: Compose v2, or docker-compose.
compose_command() {
    if docker compose version >/dev/null 2>&1; then
        echo docker compose
    elif command -v docker-compose >/dev/null; then
        echo docker-compose
    else
        return 1
    fi
}

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# Whether the images that ours are built from are here, or can be pulled.
registry_serves() {
    local image
    for image in "$base_image" "$build_image"; do
        have_image "$image" || timeout 600 docker pull --quiet "$image" >/dev/null 2>&1 || return 1
    done
}
