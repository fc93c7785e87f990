//! How the filter is loaded.

use crate::check::capabilities;
use crate::check::envoy::Plugin;
use crate::check::place::Spot;
use crate::check::rule::About::Envoy;
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};

/// `FailurePolicy`, by number.
const FAILURE_POLICIES: [&str; 4] = ["UNSPECIFIED", "FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"];

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "no-filter",
        severity: Error,
        about: Envoy,
        why: "No listener of these files has Berth's filter, so nobody is counted.",
        instead: "Put the filter into http_filters, as envoy/envoy.yaml does, or name the file that has it.",
        find: no_filter,
    },
    Rule {
        id: "fail-open",
        severity: Error,
        about: Envoy,
        why: "When the filter's VM fails, every request passes without being asked, and no limit holds.",
        instead: "Write failure_policy: FAIL_RELOAD.",
        find: fail_open,
    },
    Rule {
        id: "no-reload",
        severity: Error,
        about: Envoy,
        why: "When the filter's VM fails once, its thread answers 503 until Envoy is restarted: that is the default, FAIL_CLOSED.",
        instead: "Write failure_policy: FAIL_RELOAD.",
        find: no_reload,
    },
    Rule {
        id: "plugin-configuration",
        severity: Error,
        about: Envoy,
        why: "The filter refuses this configuration: Envoy does not start, or keeps the listener that it had.",
        instead: "Correct the setting that is named; docs/settings.md has all of them.",
        find: plugin_configuration,
    },
    Rule {
        id: "capability-missing",
        severity: Error,
        about: Envoy,
        why: "What is not allowed fails when the filter calls it, which ends its VM, or is never called by Envoy: without proxy_on_tick, for one, no beat is sent, and places of live sessions count as lost.",
        instead: "Take allowed_capabilities from envoy/envoy.yaml.",
        find: capability_missing,
    },
    Rule {
        id: "unrestricted",
        severity: Warning,
        about: Envoy,
        why: "The module may call every function of Envoy, not only those that the filter uses.",
        instead: "Take capability_restriction_config from envoy/envoy.yaml.",
        find: unrestricted,
    },
    Rule {
        id: "precompiled",
        severity: Warning,
        about: Envoy,
        why: "Machine code that stands in the module is run as it is, outside of all that WebAssembly checks.",
        instead: "Leave allow_precompiled out.",
        find: precompiled,
    },
    Rule {
        id: "runtime",
        severity: Warning,
        about: Envoy,
        why: "Berth is tested with V8, the runtime of Envoy's own builds, and with no other.",
        instead: "Write runtime: envoy.wasm.runtime.v8.",
        find: runtime,
    },
    Rule {
        id: "remote-code",
        severity: Warning,
        about: Envoy,
        why: "Until the module is fetched, requests get 503, after every start; and whoever serves it decides who is let in.",
        instead: "Write code: {local: {filename: …}}, with a module that is installed beside Envoy.",
        find: remote_code,
    },
    Rule {
        id: "filter-disabled",
        severity: Error,
        about: Envoy,
        why: "Where the filter is switched off, requests are not asked for, and headers of clients that name a worker are not removed.",
        instead: "Leave disabled out. Which requests need a lease is said by the filter's admit and paths.",
        find: filter_disabled,
    },
];

fn each(subject: &Subject<'_>, find: impl Fn(&Plugin<'_>) -> Option<Spot>) -> Vec<Spot> {
    let plugins = subject.envoy.plugins();
    plugins.filter_map(|(_, plugin)| find(plugin)).collect()
}

fn no_filter(subject: &Subject<'_>) -> Vec<Spot> {
    let envoy = &subject.envoy;
    // Envoy's Lua filter may ask for counts instead: docs/option-b.md.
    let mut filters = envoy.managers.iter().flat_map(|manager| &manager.filters);
    if envoy.plugins().next().is_some() || filters.any(|filter| filter.mentions("/redis/atomic")) {
        return Vec::new();
    }
    let file = envoy.files.first();
    let spot = |file: &&str| Spot {
        file: (*file).to_owned(),
        path: String::new(),
        found: "no Wasm filter is named berth or has a pool".to_owned(),
    };
    file.map(spot).into_iter().collect()
}

fn fail_open(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let config = &plugin.config;
        if config.is_true("fail_open") {
            return config.get("fail_open").map(|it| it.spot("is true"));
        }
        let policy = config.word("failure_policy", &FAILURE_POLICIES)?;
        let place = config.get("failure_policy")?;
        (policy == "FAIL_OPEN").then(|| place.spot("is FAIL_OPEN"))
    })
}

fn no_reload(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let config = &plugin.config;
        match config.word("failure_policy", &FAILURE_POLICIES) {
            Some("FAIL_RELOAD" | "FAIL_OPEN") => None,
            Some(other) => Some(config.get("failure_policy")?.spot(format!("is {other}"))),
            None if config.is_true("fail_open") => None,
            None => Some(config.lacks("failure_policy")),
        }
    })
}

fn plugin_configuration(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let error = plugin.settings.as_ref().err()?;
        Some(match plugin.config.get("configuration") {
            Some(place) => place.spot(format!("is refused: {error}")),
            None => plugin.config.lacks("configuration"),
        })
    })
}

fn capability_missing(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let allowed = allowed(plugin)?;
        let names: Vec<&str> = allowed
            .entries()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let missing: Vec<&str> = (capabilities::USED.iter().copied())
            .filter(|used| !names.contains(used))
            .collect();
        (!missing.is_empty()).then(|| allowed.spot(format!("lacks {}", missing.join(", "))))
    })
}

fn unrestricted(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let Some(allowed) = allowed(plugin) else {
            return Some(plugin.config.lacks("capability_restriction_config"));
        };
        let entries = allowed.entries().into_iter().map(|(name, _)| name);
        let unused: Vec<&str> = entries
            .filter(|name| !capabilities::USED.contains(name))
            .collect();
        (!unused.is_empty()).then(|| allowed.spot(format!("also allows {}", unused.join(", "))))
    })
}

/// To Envoy an empty list is none: everything is allowed.
fn allowed<'a>(plugin: &Plugin<'a>) -> Option<crate::check::place::Place<'a>> {
    let allowed = (plugin.config).find("capability_restriction_config.allowed_capabilities")?;
    (!allowed.entries().is_empty()).then_some(allowed)
}

fn precompiled(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let place = plugin.config.find("vm_config.allow_precompiled")?;
        (place.value.as_bool() == Some(true)).then(|| place.spot("is true"))
    })
}

fn runtime(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let place = plugin.config.find("vm_config.runtime")?;
        let runtime = place.value.as_str().unwrap_or_default();
        (runtime != "envoy.wasm.runtime.v8").then(|| place.spot(format!("is {runtime:?}")))
    })
}

fn remote_code(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin| {
        let place = plugin.config.find("vm_config.code.remote")?;
        let uri = place.text("http_uri.uri").unwrap_or("elsewhere");
        Some(place.spot(format!("is fetched from {uri}")))
    })
}

fn filter_disabled(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        if plugin.filter.is_true("disabled") {
            spots.extend(plugin.filter.get("disabled").map(|it| it.spot("is true")));
        }
        let name = plugin.filter.text("name").unwrap_or_default();
        let told = manager.routes.iter().flat_map(|route| route.told(name));
        let disabled = told.filter(|told| told.is_true("disabled"));
        spots.extend(disabled.map(|told| told.spot("is disabled: true")));
    }
    // What a virtual host says is found once for each of its routes.
    spots.dedup();
    spots
}
