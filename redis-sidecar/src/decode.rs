//! The scripts' answers: tables of strings, a status word first. `None` means that an answer is none
//! of those its script's header lists.

use crate::atomic::{AtomicAnswer, Done, Operation, Outcome, Refusal};
use crate::explain::ExplainPage;
use crate::lease_view::{Audit, LeaseRow, LeaseView};
use crate::request_keys::RequestKeys;
use crate::store::{Reaped, Standing};
use crate::view::PoolPage;
use admission::id::{Epoch, ProxyId};
use admission::message::{
    AdmitAnswer, AdmitRequest, Admitted, Advice, Denied, DenyReason, Redirected, RenewAnswer,
    Verdict, WorkerAnswer,
};

pub(crate) fn decision(
    request: &AdmitRequest,
    keys: RequestKeys,
    reply: &[String],
) -> Option<AdmitAnswer> {
    match reply {
        [word, worker, incarnation, address, active, lifetime, probe] if word == "admitted" => {
            Some(AdmitAnswer::Admitted(Admitted {
                worker: worker.parse().ok()?,
                incarnation: incarnation.parse().ok()?,
                address: address.parse().ok()?,
                lease: request.lease.clone(),
                active: active.parse().ok()?,
                lifetime: lifetime.parse().ok()?,
                probe: probe == "1",
                client: keys.client,
                affinity: keys.affinity,
            }))
        }
        [word, worker, origin] if word == "redirected" => {
            Some(AdmitAnswer::Redirected(Redirected {
                worker: worker.parse().ok()?,
                origin: origin.parse().ok()?,
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

/// `verdict, lost, rebuild, lease_ttl_ms`
pub(crate) fn renewed(reply: &[String]) -> Option<RenewAnswer> {
    match reply {
        [verdict, lost, rebuild, lease_ttl_ms] => Some(RenewAnswer {
            verdict: Verdict::parse(verdict)?,
            lost: lost == "1",
            rebuild: Some(rebuild.parse().ok()?).filter(|number| *number > 0),
            lease_ttl_ms: lease_ttl_ms.parse().ok()?,
        }),
        _ => None,
    }
}

/// `inventory, next cursor, numbers…`
pub(crate) fn inventory(reply: &[String]) -> Option<(Option<String>, Vec<u64>)> {
    match reply {
        [word, next, numbers @ ..] if word == "inventory" => {
            let numbers = numbers.iter().map(|number| number.parse().ok());
            let next = (next != "0").then(|| next.clone());
            Some((next, numbers.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// `holders, next cursor, epochs…`
pub(crate) fn holders(reply: &[String]) -> Option<(Option<String>, Vec<Epoch>)> {
    match reply {
        [word, next, epochs @ ..] if word == "holders" => {
            let epochs = epochs.iter().map(|epoch| epoch.parse().ok());
            let next = (next != "0").then(|| next.clone());
            Some((next, epochs.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// `leases, next cursor, proxy`, and as JSON: `leases`
pub(crate) fn leases(reply: &[String], epoch: &Epoch) -> Option<(Option<String>, Vec<LeaseView>)> {
    match reply {
        [word, next, proxy, leases] if word == "leases" => {
            let rows: Vec<LeaseRow> = serde_json::from_str(leases).ok()?;
            let proxy = ProxyId::lossy(proxy.as_bytes());
            let shown = rows.into_iter().map(|row| row.shown(&proxy, epoch));
            let next = (next != "0").then(|| next.clone());
            Some((next, shown.collect()))
        }
        _ => None,
    }
}

/// `audited`, and what was found as JSON
pub(crate) fn audited(reply: &[String]) -> Option<Audit> {
    match reply {
        [word, found] if word == "audited" => serde_json::from_str(found).ok(),
        _ => None,
    }
}

/// `done | again, rebuild, epochs…`: whether to ask again, and what is known so far.
pub(crate) fn reaped(reply: &[String]) -> Option<(bool, Reaped)> {
    match reply {
        [word, rebuild, due @ ..] if word == "done" || word == "again" => {
            let due = due.iter().map(|epoch| epoch.parse().ok());
            let reaped = Reaped {
                rebuild: number_unless_0(rebuild)?,
                due: due.collect::<Option<_>>()?,
            };
            Some((word == "again", reaped))
        }
        _ => None,
    }
}

/// `present, rebuild` or a word alone.
pub(crate) fn standing(reply: &[String]) -> Option<Standing> {
    match reply {
        [word, rebuild] if word == "present" => Some(Standing::Present {
            rebuild: number_unless_0(rebuild)?,
        }),
        [word] => match word.as_str() {
            "reclaimed" => Some(Standing::Reclaimed),
            "superseded" => Some(Standing::Superseded),
            "noted" => Some(Standing::Noted),
            _ => None,
        },
        _ => None,
    }
}

fn number_unless_0(text: &str) -> Option<Option<u64>> {
    let number: u64 = text.parse().ok()?;
    Some((number != 0).then_some(number))
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

/// `again, count, taken back`
pub(crate) fn swept_in_part(reply: &[String]) -> Option<u64> {
    match reply {
        [word, _, taken_back] if word == "again" => taken_back.parse().ok(),
        _ => None,
    }
}

/// `word, count`, then `retry_after_ms` or `taken back`, and perhaps `held`
pub(crate) fn done(operation: &Operation, reply: &[String]) -> Option<Done> {
    let [word, count, figure, held @ ..] = reply else {
        return None;
    };
    let (count, figure) = (count.parse().ok()?, figure.parse().ok()?);
    let taken_back = match operation {
        Operation::CheckRateLimit { .. } => 0,
        Operation::CheckAndIncrement { .. }
        | Operation::Decrement { .. }
        | Operation::Renew { .. }
        | Operation::Get => figure,
    };
    let checked = |reason: Option<Refusal>| AtomicAnswer::Checked {
        allowed: reason.is_none(),
        count,
        reason,
    };
    let rated = |allowed| AtomicAnswer::Rated {
        allowed,
        count,
        retry_after_ms: figure,
    };
    let counted = AtomicAnswer::Counted { count };
    let (answer, outcome) = match (operation, word.as_str(), held) {
        (Operation::CheckAndIncrement { .. }, "allowed", []) => (checked(None), Outcome::Allowed),
        (Operation::CheckAndIncrement { .. }, "limit_exceeded", []) => {
            (checked(Some(Refusal::LimitExceeded)), Outcome::Denied)
        }
        (Operation::CheckAndIncrement { .. }, "too_many_owners", []) => {
            (checked(Some(Refusal::TooManyOwners)), Outcome::Denied)
        }
        (Operation::CheckRateLimit { .. }, "allowed", []) => (rated(true), Outcome::Allowed),
        (Operation::CheckRateLimit { .. }, "limit_exceeded", []) => (rated(false), Outcome::Denied),
        (Operation::Decrement { .. } | Operation::Get, "counted", []) => (counted, Outcome::Done),
        (Operation::Decrement { .. }, "unheld", []) => (counted, Outcome::Unheld),
        (Operation::Renew { .. }, "renewed", [held]) => match held.parse().ok()? {
            0 => (AtomicAnswer::Renewed { count, held: 0 }, Outcome::Unheld),
            held => (AtomicAnswer::Renewed { count, held }, Outcome::Done),
        },
        _ => return None,
    };
    Some(Done {
        answer,
        outcome,
        taken_back,
    })
}
