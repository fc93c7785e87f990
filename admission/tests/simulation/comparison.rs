//! How a sidecar compares what a beat lists with what the store has.

use crate::event::{Answer, Comparison, Op, Reply, Then};
use crate::world::World;
use admission::message::{Place, RenewAnswer, RenewRequest, Verdict};
use std::collections::BTreeSet;

/// Leases in one step of a comparison; few, so that there are several steps.
const STEP_MAX: usize = 2;

impl World {
    pub(crate) fn renewed(
        &mut self,
        sidecar: usize,
        (vm, token): (usize, u64),
        request: Box<RenewRequest>,
        answer: RenewAnswer,
    ) {
        if request.leases.is_none() || answer.verdict != Verdict::List {
            return self.reply(vm, token, Reply::Renew(answer));
        }
        let op = Op::Listed(request.holder.clone(), request.beat);
        let comparison = Box::new(Comparison {
            request,
            answer,
            steps: Vec::new(),
        });
        let then = Then::Compare {
            vm,
            token,
            comparison,
        };
        self.ask_store(sidecar, op, then);
    }

    pub(crate) fn compare(
        &mut self,
        sidecar: usize,
        (vm, token): (usize, u64),
        mut comparison: Box<Comparison>,
        answer: Answer,
    ) {
        match answer {
            Answer::Listed(Some(numbers)) => {
                comparison.steps = differences(&comparison.request, &numbers);
            }
            Answer::Done(true) => {}
            // A later beat has taken over.
            Answer::Listed(None)
            | Answer::Done(false)
            | Answer::Admit(_)
            | Answer::Released
            | Answer::Renew(_)
            | Answer::Reaped(_)
            | Answer::Worker(_) => {
                comparison.answer.verdict = Verdict::Stale;
                comparison.steps.clear();
            }
        }
        match comparison.steps.pop() {
            Some(op) => {
                let then = Then::Compare {
                    vm,
                    token,
                    comparison,
                };
                self.ask_store(sidecar, op, then);
            }
            None => {
                if comparison.answer.verdict == Verdict::List {
                    comparison.answer.verdict = Verdict::Kept;
                }
                self.reply(vm, token, Reply::Renew(comparison.answer));
            }
        }
    }
}

/// The steps that make the store hold what a beat lists.
fn differences(request: &RenewRequest, numbers: &[u64]) -> Vec<Op> {
    let (holder, beat) = (&request.holder, request.beat);
    let places = request.leases.as_deref().unwrap_or_default();
    let listed: BTreeSet<u64> = (places.iter())
        .flat_map(|place| place.leases.iter().map(|lease| lease.0))
        .collect();
    let mut steps = Vec::new();
    let lost: Vec<u64> = (numbers.iter().copied())
        .filter(|number| !listed.contains(number))
        .filter(|number| !request.asking.contains(number) && !request.ended.contains(number))
        .collect();
    for chunk in lost.chunks(STEP_MAX) {
        steps.push(Op::Renounce(holder.clone(), beat, chunk.to_vec()));
    }
    for place in places {
        let missing: Vec<(u64, u64)> = (place.leases.iter().copied())
            .filter(|(number, _)| !numbers.contains(number))
            .collect();
        for chunk in missing.chunks(STEP_MAX) {
            let place = Place {
                leases: chunk.to_vec(),
                ..place.clone()
            };
            steps.push(Op::Reassert(holder.clone(), beat, place));
        }
    }
    steps
}
