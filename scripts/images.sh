#!/usr/bin/env bash
# Builds the images of docker/Dockerfile and prints their sizes.
#
# Where the images that they begin with cannot be pulled, their base is made with debootstrap, and the programs
# are those that scripts/build.sh leaves on this machine; else all is built inside.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"
# shellcheck source=scripts/docker.sh
source scripts/docker.sh

tag=${BERTH_TAG:-dev}
images=(redis sidecar worker envoy)

say() { printf 'images: %s\n' "$*"; }

# quietly WHAT COMMAND...: shows the output only if it fails.
quietly() {
    local log
    log=$(mktemp)
    say "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# The mirror is this machine's own, as its apt names it.
debian_mirror() {
    # shellcheck disable=SC2016  # apt-get's own syntax.
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' |
        head -n 1
}

make_base_image() {
    local mirror root status=0 as_root=()
    have_image "$own_base_image" && return
    mirror=$(debian_mirror)
    if [ -z "$mirror" ]; then
        say "no registry can be reached, and apt knows no mirror of Debian bookworm: docker/Dockerfile needs one of both" >&2
        return 1
    fi
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    root=$(mktemp -d)
    quietly "no registry can be reached: making $own_base_image with debootstrap (1 to 2 minutes)" \
        "${as_root[@]}" debootstrap --variant=minbase bookworm "$root/base" "$mirror" &&
        import_base_image "$root/base" || status=$?
    "${as_root[@]}" rm -rf "$root"
    return $status
}

# As slim as the official one: without what nobody reads in a container.
import_base_image() {
    "${as_root[@]}" tar --directory "$1" --create --numeric-owner \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
        --exclude='./usr/share/locale/*' --exclude='./var/cache/*' --exclude='./var/lib/apt/lists/*' \
        --exclude='./var/log/*' --exclude='./dev/*' . |
        docker import --change 'CMD ["bash"]' - "$own_base_image" >/dev/null
}

# A directory with the Dockerfile's own files and the programs of this machine.
make_context() {
    local context=$1 program
    rm -rf "$context"
    mkdir -p "$context/prebuilt"
    cp -r docker "$context"
    for program in berth demo-worker; do
        strip --output-file "$context/prebuilt/$program" "$BERTH_BIN_DIR/$program"
    done
    cp "$BERTH_FILTER_WASM" "$context/prebuilt/filter.wasm"
    cp --dereference "$ENVOY_BIN" "$context/prebuilt/envoy"
}

build_images() {
    local image
    for image in "${images[@]}"; do
        quietly "building berth-$image:$tag" docker build "$@" --file docker/Dockerfile \
            --target "$image" --tag "berth-$image:$tag" "$context"
    done
}

# Programs of a newer system than the image's would not start in it.
try_images() {
    docker run --rm --network none "berth-sidecar:$tag" berth --version
    docker run --rm --network none "berth-worker:$tag" demo-worker --version
    docker run --rm --network none "berth-envoy:$tag" envoy --version
    docker run --rm --network none "berth-redis:$tag" redis-server --version
}

if ! docker_answers; then
    say "no Docker engine answers: start one, or see what \`docker info\` says" >&2
    exit 1
fi

if registry_serves; then
    context=.
    build_images --build-arg "BASE_IMAGE=$base_image" --build-arg "BUILD_IMAGE=$build_image"
else
    make_base_image
    # Programs from elsewhere are taken as they are.
    if [ "$BERTH_BIN_DIR" = "$target_dir/release" ]; then scripts/build.sh; fi
    context=$target_dir/images
    make_context "$context"
    # The host's network: where no registry is reached, a bridge's often leads nowhere.
    build_images --network host --build-arg "BASE_IMAGE=$own_base_image" --build-arg "BUILD_IMAGE=$own_base_image"
fi
quietly 'trying each' try_images
docker images --format 'table {{.Repository}}:{{.Tag}}\t{{.Size}}' --filter "reference=berth-*:$tag"
