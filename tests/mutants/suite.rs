//! The test programs of this workspace that guards are tried with.

/// How a test program comes to see a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sees {
    /// It is built from the mutant, or linked with it.
    Built,
    /// It starts `berth`, and Envoys that load the filter. It is never built anew.
    Started,
}

/// A test program.
#[derive(Debug)]
pub(crate) struct Suite {
    /// As cargo calls it.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// Where cargo would run it.
    pub(crate) directory: &'static str,
    /// Its tests are in files of this directory, seen from the former.
    pub(crate) sources: &'static str,
    pub(crate) sees: Sees,
}

pub(crate) const SUITES: [Suite; 7] = [
    Suite {
        name: "admission",
        package: "admission",
        directory: "admission",
        sources: "src",
        sees: Sees::Built,
    },
    Suite {
        name: "redis_sidecar",
        package: "redis-sidecar",
        directory: "redis-sidecar",
        sources: "src",
        sees: Sees::Built,
    },
    Suite {
        name: "sidecar",
        package: "redis-sidecar",
        directory: "redis-sidecar",
        sources: "tests",
        sees: Sees::Built,
    },
    Suite {
        name: "short",
        package: "fuzz",
        directory: "fuzz",
        sources: "tests",
        sees: Sees::Built,
    },
    Suite {
        name: "topologies",
        package: "fleet-tests",
        directory: "tests",
        sources: "topologies",
        sees: Sees::Built,
    },
    Suite {
        name: "fleet",
        package: "fleet-tests",
        directory: "tests",
        sources: "fleet",
        sees: Sees::Started,
    },
    Suite {
        name: "faults",
        package: "fleet-tests",
        directory: "tests",
        sources: "faults",
        sees: Sees::Started,
    },
];

impl Suite {
    /// Which of its package's it is. A library's unit tests have the name of their package.
    pub(crate) fn target(&self) -> String {
        match self.name.replace('_', "-") == self.package {
            true => "--lib".to_owned(),
            false => format!("--test {}", self.name),
        }
    }
}
