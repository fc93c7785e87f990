//! libFuzzer around the target that `BERTH_FUZZ_TARGET` names; scripts/fuzz.sh builds and starts it.

#![no_main]

use fuzz::Target;
use std::sync::LazyLock;

const VARIABLE: &str = "BERTH_FUZZ_TARGET";

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    match Target::named(&name) {
        Some(target) => target,
        None => panic!(
            "{VARIABLE} must be one of {:?}",
            fuzz::TARGETS.map(|target| target.name)
        ),
    }
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (CHOSEN.run)(input));
