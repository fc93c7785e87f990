//! One stream's life with its lease. The filter turns Envoy's callbacks into events and carries
//! out the effects; everything in between is decided here.

use crate::id::{KeyHash, LeaseId, Origin};
use crate::inspect::Demand;
use crate::message::{AdmitAnswer, Admitted, Observation, Release, Use};
use crate::outcome::{Author, Response, ResponseFlags, judge};
use crate::reply::Refusal;

#[derive(Debug)]
enum State {
    /// No lease was asked for yet.
    Fresh,
    Asking(Asking),
    Holding(Holding),
    /// Nothing is owed: passed, refused, or given back.
    Ended,
}

#[derive(Debug)]
struct Asking {
    lease: LeaseId,
    demand: Demand,
}

#[derive(Debug)]
struct Holding {
    lease: LeaseId,
    demand: Demand,
    probe: bool,
    routed_at_us: u64,
    response: Response,
    /// What takes longer than an hour is told as an hour: there is one of these for each session.
    handshake_us: Option<u32>,
    affinity: Option<KeyHash>,
    /// The answer waits for its key to be bound.
    binding: bool,
    /// The worker's answer ends the affinity.
    unbind: bool,
}

/// A worker that answers with this or more did not do what it was asked: nothing began or ended.
const FAILED: u16 = 500;

/// What went over a stream, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    pub bytes_read: u64,
    pub bytes_written: u64,
}

#[derive(Debug)]
pub enum Event {
    /// The request needs no lease.
    Passed,
    /// The request needs the lease that was minted for it.
    Wanted { lease: LeaseId, demand: Demand },
    /// The sidecar answered.
    Answered { answer: AdmitAnswer, now_us: u64 },
    /// The request needs a lease, and its holder has a place at hand: nobody need be asked.
    Placed {
        admitted: Admitted,
        demand: Demand,
        now_us: u64,
    },
    /// The sidecar could not be asked, or its answer is none.
    Failed,
    /// The same, but the holder has a place at hand.
    Rescued { admitted: Admitted, now_us: u64 },
    /// The watchdog found the stream; if it still waits, it waited too long.
    Overdue,
    /// Response headers are on their way to the client.
    Responding {
        status: u16,
        author: Author,
        now_us: u64,
        /// What they mean for the affinity, if they are the worker's.
        affinity: AffinityNews,
    },
    /// The sidecar has bound the key, or could not.
    Bound,
    /// The stream is over.
    Ended {
        flags: ResponseFlags,
        traffic: Traffic,
        now_us: u64,
    },
}

/// What an answer says about affinity.
#[derive(Debug, Default)]
pub struct AffinityNews {
    /// A key that is to lead to the worker from now on.
    pub bind: Option<String>,
    /// The request's own key no longer does.
    pub unbind: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Let the request go on.
    Pass,
    /// Hold the request and ask for this lease.
    Ask(LeaseId),
    /// Name the worker and let the request go on.
    Route(Admitted),
    /// Answer the client.
    Refuse(Refusal),
    /// Tell the client to ask there.
    Redirect(Origin),
    /// Hold the answer and have its key bound.
    Bind { lease: LeaseId, key: String },
    /// Let the answer go on.
    Answer,
    /// Tell the sidecar what became of an upgrade or a probe.
    Observe(Observation),
    /// Give the lease back.
    Release(Release),
}

#[derive(Debug)]
pub struct Lifecycle {
    state: State,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

impl Lifecycle {
    pub fn new() -> Self {
        Self {
            state: State::Fresh,
        }
    }

    /// Whether the stream waits for the sidecar's answer.
    pub fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking(_))
    }

    /// The number of the lease that the stream waits for.
    pub fn asked(&self) -> Option<u64> {
        match &self.state {
            State::Asking(asking) => Some(asking.lease.seq),
            State::Fresh | State::Holding(_) | State::Ended => None,
        }
    }

    /// Whether the stream has a place on a worker.
    pub fn is_holding(&self) -> bool {
        matches!(self.state, State::Holding(_))
    }

    /// Whether nothing that happens to the stream matters any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether the answer waits for its key to be bound.
    pub fn is_binding(&self) -> bool {
        matches!(&self.state, State::Holding(holding) if holding.binding)
    }

    /// An event that does not fit the state is late news of something already settled: it has no
    /// effect and changes nothing.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match (std::mem::replace(&mut self.state, State::Ended), event) {
            (State::Fresh, Event::Passed) => vec![Effect::Pass],
            (State::Fresh, Event::Wanted { lease, demand }) => {
                let effect = Effect::Ask(lease.clone());
                self.state = State::Asking(Asking { lease, demand });
                vec![effect]
            }
            (State::Asking(asking), Event::Answered { answer, now_us }) => {
                self.answered(asking, answer, now_us)
            }
            (
                State::Fresh,
                Event::Placed {
                    admitted,
                    demand,
                    now_us,
                },
            ) => vec![self.route(admitted, demand, now_us)],
            (State::Asking(asking), Event::Rescued { admitted, now_us }) => vec![
                self.route(admitted, asking.demand, now_us),
                Effect::Release(Release::unused(asking.lease)),
            ],
            (State::Asking(asking), Event::Failed) => refused_and_released(asking, Refusal::Outage),
            (State::Asking(asking), Event::Overdue) => {
                refused_and_released(asking, Refusal::Overdue)
            }
            (State::Asking(asking), Event::Ended { .. }) => {
                vec![Effect::Release(Release::unused(asking.lease))]
            }
            (
                State::Holding(holding),
                Event::Responding {
                    status,
                    author,
                    now_us,
                    affinity,
                },
            ) => self.responding(holding, Response::of(status, author), now_us, affinity),
            (State::Holding(mut holding), Event::Bound) if holding.binding => {
                holding.binding = false;
                self.state = State::Holding(holding);
                vec![Effect::Answer]
            }
            (
                State::Holding(holding),
                Event::Ended {
                    flags,
                    traffic,
                    now_us,
                },
            ) => {
                vec![Effect::Release(holding.release(flags, traffic, now_us))]
            }
            (unchanged, _) => {
                self.state = unchanged;
                Vec::new()
            }
        }
    }

    fn answered(&mut self, asking: Asking, answer: AdmitAnswer, now_us: u64) -> Vec<Effect> {
        match answer {
            AdmitAnswer::Denied(denied) => vec![Effect::Refuse(Refusal::from(&denied))],
            AdmitAnswer::Redirected(redirected) => vec![Effect::Redirect(redirected.origin)],
            // An answer about another lease is none: what was asked for may still be granted.
            AdmitAnswer::Admitted(admitted) if admitted.lease != asking.lease => {
                refused_and_released(asking, Refusal::Outage)
            }
            AdmitAnswer::Admitted(admitted) => vec![self.route(admitted, asking.demand, now_us)],
        }
    }

    fn route(&mut self, admitted: Admitted, demand: Demand, now_us: u64) -> Effect {
        self.state = State::Holding(Holding {
            lease: admitted.lease.clone(),
            demand,
            probe: admitted.probe,
            routed_at_us: now_us,
            response: Response::None,
            handshake_us: None,
            affinity: admitted.affinity,
            binding: false,
            unbind: false,
        });
        Effect::Route(admitted)
    }

    fn responding(
        &mut self,
        mut holding: Holding,
        response: Response,
        now_us: u64,
        affinity: AffinityNews,
    ) -> Vec<Effect> {
        let handshake_us = now_us.saturating_sub(holding.routed_at_us);
        holding.response = response;
        holding.handshake_us = Some(u32::try_from(handshake_us).unwrap_or(u32::MAX));
        // The end of an upgraded stream may be hours away, and a probe is waited for.
        let early = holding.probe || holding.demand == Demand::Upgrade;
        let news = match response {
            Response::Worker { .. } if early => Some(Effect::Observe(Observation {
                lease: holding.lease.clone(),
                outcome: judge(response, ResponseFlags::default()),
                handshake_us: Some(handshake_us).filter(|_| holding.demand == Demand::Upgrade),
            })),
            // A failure ends the stream at once, and its release brings the news.
            Response::Worker { .. } | Response::Envoy | Response::None => None,
        };
        let bind = match response {
            Response::Worker { status } if status < FAILED => {
                holding.unbind = affinity.unbind;
                affinity.bind
            }
            Response::Worker { .. } | Response::Envoy | Response::None => None,
        };
        holding.binding = bind.is_some();
        let lease = holding.lease.clone();
        self.state = State::Holding(holding);
        let bind = bind.map(|key| Effect::Bind { lease, key });
        news.into_iter().chain(bind).collect()
    }
}

impl Holding {
    fn release(self, flags: ResponseFlags, traffic: Traffic, now_us: u64) -> Release {
        let status = match self.response {
            Response::Worker { status } => Some(status),
            Response::None | Response::Envoy => None,
        };
        let handshake_us = status.and(self.handshake_us).map(u64::from);
        Release {
            r#use: used(self.demand, status),
            outcome: judge(self.response, flags),
            status,
            handshake_us: handshake_us.filter(|_| self.demand == Demand::Request),
            upgrade_us: handshake_us.filter(|_| self.demand == Demand::Upgrade),
            session_us: Some(now_us.saturating_sub(self.routed_at_us)),
            bytes_read: traffic.bytes_read,
            bytes_written: traffic.bytes_written,
            unbind: self.affinity.filter(|_| self.unbind),
            lease: self.lease,
        }
    }
}

/// An upgrade that the worker did not accept never became a session; any other request is served
/// once its worker has answered.
fn used(demand: Demand, status: Option<u16>) -> Use {
    let used = match demand {
        Demand::Upgrade => matches!(status, Some(101 | 200..=299)),
        Demand::Request | Demand::Pass => status.is_some(),
    };
    if used { Use::Used } else { Use::Unused }
}

/// Refused without the sidecar's word: the lease may have been granted all the same, so it is
/// released too.
fn refused_and_released(asking: Asking, refusal: Refusal) -> Vec<Effect> {
    vec![
        Effect::Refuse(refusal),
        Effect::Release(Release::unused(asking.lease)),
    ]
}

#[cfg(test)]
mod tests;
