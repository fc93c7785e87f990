//! Where the programs under test are.

use std::path::{Path, PathBuf};

/// Where the build puts the filter, inside cargo's target directory.
const FILTER_WASM: &str = "wasm32-wasip1/filter/filter.wasm";

const POISON_WASM: &str = "poison/wasm32-wasip1/filter/filter.wasm";

/// The workspace's top directory.
pub fn top() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// A program of this workspace, built with `--release`.
pub fn program(name: &str) -> PathBuf {
    let directory = match std::env::var_os("BERTH_BIN_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => target().join("release"),
    };
    existing(directory.join(name), "BERTH_BIN_DIR")
}

/// What the shipped Envoy configurations must say: the filter as `make build` leaves it, seen from
/// the top directory.
pub fn shipped_filter_wasm() -> String {
    format!("target/{FILTER_WASM}")
}

pub fn filter_wasm() -> PathBuf {
    let path = match std::env::var_os("BERTH_FILTER_WASM") {
        Some(path) => PathBuf::from(path),
        None => target().join(FILTER_WASM),
    };
    existing(path, "BERTH_FILTER_WASM")
}

/// The filter that dies of the header `x-berth-poison`, for tests of a VM's death only.
pub fn poison_wasm() -> PathBuf {
    let path = match std::env::var_os("BERTH_POISON_WASM") {
        Some(path) => PathBuf::from(path),
        None => target().join(POISON_WASM),
    };
    existing(path, "BERTH_POISON_WASM")
}

pub fn envoy() -> PathBuf {
    let path = match std::env::var_os("ENVOY_BIN") {
        Some(path) => PathBuf::from(path),
        None => top().join(".tools/bin/envoy"),
    };
    existing(path, "ENVOY_BIN")
}

/// What calls the sidecar by docs/openapi.yaml.
pub fn schemathesis() -> PathBuf {
    let path = match std::env::var_os("SCHEMATHESIS_BIN") {
        Some(path) => PathBuf::from(path),
        None => top().join(".tools/bin/schemathesis"),
    };
    assert!(
        path.exists(),
        "there is no {}: run `make setup`, or set SCHEMATHESIS_BIN",
        path.display()
    );
    path
}

/// This very executable lies in `target/release/` or `target/release/deps/`, wherever cargo was
/// told to put `target/`.
pub fn target() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    let above = executable.ancestors().find(|directory| {
        directory
            .file_name()
            .is_some_and(|name| name == "release" || name == "debug")
    });
    match above.and_then(Path::parent) {
        Some(target) => target.to_path_buf(),
        None => top().join("target"),
    }
}

fn existing(path: PathBuf, variable: &str) -> PathBuf {
    assert!(
        path.exists(),
        "there is no {}: run `make build`, or set {variable}",
        path.display()
    );
    // Envoy and others are started in a directory of their own.
    path.canonicalize().unwrap_or(path)
}
