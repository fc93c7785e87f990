//! The scripts' answers: tables of strings, a status word first. `None` means that an answer is none
//! of those its script's header lists.

use crate::explain::ExplainPage;
use crate::view::PoolPage;
use admission::message::{
    AdmitAnswer, AdmitRequest, Admitted, Advice, Denied, DenyReason, WorkerAnswer,
};

pub(crate) fn decision(request: &AdmitRequest, reply: &[String]) -> Option<AdmitAnswer> {
    match reply {
        [word, worker, address, active, lifetime, probe] if word == "admitted" => {
            Some(AdmitAnswer::Admitted(Admitted {
                worker: worker.parse().ok()?,
                address: address.parse().ok()?,
                lease: request.lease.clone(),
                active: active.parse().ok()?,
                lifetime: lifetime.parse().ok()?,
                probe: probe == "1",
            }))
        }
        [word, reason, retry_after_ms] if word == "denied" => Some(AdmitAnswer::Denied(Denied {
            reason: DenyReason::parse(reason)?,
            retry_after_ms: retry_after_ms.parse().ok()?,
        })),
        _ => None,
    }
}

/// `released, 1101…`
pub(crate) fn held(reply: &[String]) -> Option<Vec<bool>> {
    match reply {
        [word, digits] if word == "released" => {
            Some(digits.chars().map(|digit| digit == '1').collect())
        }
        _ => None,
    }
}

/// `word, known, unknown`
pub(crate) fn counts(word: &str, reply: &[String]) -> Option<(u64, u64)> {
    match reply {
        [first, known, unknown] if first == word => {
            Some((known.parse().ok()?, unknown.parse().ok()?))
        }
        _ => None,
    }
}

/// `advice, active, lifetime`, or an advice alone to those who have no figures.
pub(crate) fn advice(reply: &[String]) -> Option<WorkerAnswer> {
    let (word, active, lifetime) = match reply {
        [word] => (word, 0, 0),
        [word, active, lifetime] => (word, active.parse().ok()?, lifetime.parse().ok()?),
        _ => return None,
    };
    Some(WorkerAnswer {
        advice: Advice::parse(word)?,
        active,
        lifetime,
    })
}

/// `view, next cursor`, and as JSON: `pool, policy, workers`
pub(crate) fn page(reply: &[String]) -> Option<PoolPage> {
    match reply {
        [word, next, head, policy, workers] if word == "view" => Some(PoolPage {
            head: serde_json::from_str(head).ok()?,
            policy: serde_json::from_str(policy).ok()?,
            workers: serde_json::from_str(workers).ok()?,
            next: (next != "0").then(|| next.clone()),
        }),
        _ => None,
    }
}

/// `explained, next cursor, chosen, due`, and as JSON: `workers`
pub(crate) fn explained(reply: &[String]) -> Option<ExplainPage> {
    match reply {
        [word, next, chosen, due, workers] if word == "explained" => Some(ExplainPage {
            chosen: match chosen.as_str() {
                "" => None,
                chosen => Some(chosen.parse().ok()?),
            },
            due: due.parse().ok()?,
            workers: serde_json::from_str(workers).ok()?,
            next: (next != "0").then(|| next.clone()),
        }),
        _ => None,
    }
}
