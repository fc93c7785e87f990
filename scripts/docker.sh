# shellcheck shell=bash
# Sourced by scripts that use Docker: whether it is there, and whose images it can have.

# What docker/Dockerfile begins with, unless the caller says otherwise.
base_image=${BERTH_BASE_IMAGE:-debian:bookworm-slim}
build_image=${BERTH_BUILD_IMAGE:-rust:1.95.0-bookworm}
# Made with debootstrap where those cannot be had.
# shellcheck disable=SC2034  # For those who source this.
own_base_image=berth-base:bookworm

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

# served IMAGE: whether it is here, or can be pulled.
served() { have_image "$1" || timeout 600 docker pull --quiet "$1" >/dev/null 2>&1; }

base_is_served() { served "$base_image"; }

# Whether all that docker/Dockerfile begins with can be had.
registry_serves() { base_is_served && served "$build_image"; }
