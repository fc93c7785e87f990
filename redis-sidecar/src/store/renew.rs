//! A holder's beat, and the comparison one by one when it lists its leases.

use super::{Call, Store, text_or_empty, unexpected};
use crate::decode;
use crate::error::StoreError;
use admission::id::{Epoch, PoolName, beat_of};
use admission::message::{Place, RenewAnswer, RenewRequest, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Leases for each step of a comparison: a script stays at about a millisecond.
const STEP: usize = 128;

/// Whether a step counted, or came after the next beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    Stale,
}

/// What has to change in the store so that it has what the holder lists.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference<'a> {
    missing: Vec<(u64, u64, &'a Place)>,
    extra: Vec<u64>,
}

impl<'a> Difference<'a> {
    fn of(request: &RenewRequest, places: &'a [Place], stored: &BTreeSet<u64>) -> Self {
        let spoken_for = |number: u64| beat_of(number) < request.beat;
        let under_way: BTreeSet<u64> = (request.asking.iter())
            .chain(&request.ended)
            .copied()
            .collect();
        let listed: BTreeMap<u64, (u64, &Place)> = (places.iter())
            .flat_map(|place| place.leases.iter().map(move |lease| (place, *lease)))
            .map(|(place, (number, lifetime))| (number, (lifetime, place)))
            .filter(|(number, _)| spoken_for(*number) && !under_way.contains(number))
            .collect();
        let missing = listed.iter().filter(|(number, _)| !stored.contains(number));
        let extra = stored.iter().filter(|number| {
            spoken_for(**number) && !listed.contains_key(number) && !under_way.contains(number)
        });
        Self {
            missing: missing
                .map(|(number, (lifetime, place))| (*number, *lifetime, *place))
                .collect(),
            extra: extra.copied().collect(),
        }
    }
}

impl Store {
    pub async fn renew(&self, request: &RenewRequest) -> Result<RenewAnswer, StoreError> {
        let answer = self.beat(request, "beat").await?;
        let (Verdict::List, Some(places)) = (answer.verdict, &request.leases) else {
            return Ok(answer);
        };
        if answer.lost {
            // Told before anything that may fail: it is said once.
            return Ok(answer);
        }
        let stale = RenewAnswer {
            verdict: Verdict::Stale,
            ..answer
        };
        let stored = self.inventory(request).await?;
        let Difference { missing, extra } = Difference::of(request, places, &stored);
        for step in missing.chunks(STEP) {
            if self.reassert(request, step).await? == Step::Stale {
                return Ok(stale);
            }
        }
        for step in extra.chunks(STEP) {
            if self.renounce(request, step).await? == Step::Stale {
                return Ok(stale);
            }
        }
        let compared = self.beat(request, "compare").await?;
        Ok(RenewAnswer {
            lost: answer.lost,
            ..compared
        })
    }

    async fn beat(
        &self,
        request: &RenewRequest,
        step: &'static str,
    ) -> Result<RenewAnswer, StoreError> {
        let mut args = vec![
            request.beat.to_string(),
            request.holder.proxy.to_string(),
            step.to_owned(),
            text_or_empty(request.held.map(|held| held.count)),
            text_or_empty(request.held.map(|held| u64::from(held.digest))),
            text_or_empty(request.rebuild),
            request.asking.len().to_string(),
        ];
        let under_way = request.asking.iter().chain(&request.ended);
        args.extend(under_way.map(u64::to_string));
        let (pool, epoch) = holder_of(request);
        let reply = self
            .run(Call::of_holder("renew", pool, epoch, args))
            .await?;
        decode::renewed(&reply).ok_or_else(|| unexpected(pool, "renew", reply))
    }

    /// The numbers of all leases that the store has of the holder.
    async fn inventory(&self, request: &RenewRequest) -> Result<BTreeSet<u64>, StoreError> {
        let (pool, epoch) = holder_of(request);
        let (mut numbers, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let call = Call::of_holder("inventory", pool, epoch, vec![cursor]);
            let reply = self.run(call).await?;
            let (next, page) =
                decode::inventory(&reply).ok_or_else(|| unexpected(pool, "inventory", reply))?;
            numbers.extend(page);
            match next {
                Some(next) => cursor = next,
                None => return Ok(numbers),
            }
        }
    }

    async fn reassert(
        &self,
        request: &RenewRequest,
        leases: &[(u64, u64, &Place)],
    ) -> Result<Step, StoreError> {
        let told = leases.iter().flat_map(|(number, lifetime, place)| {
            [
                number.to_string(),
                lifetime.to_string(),
                place.worker.to_string(),
                place.incarnation.to_string(),
                place.address.to_string(),
                text_or_empty(place.clients.get(number)),
            ]
        });
        let args = [request.beat.to_string()].into_iter().chain(told);
        self.step("reassert", "reasserted", request, args.collect())
            .await
    }

    async fn renounce(&self, request: &RenewRequest, numbers: &[u64]) -> Result<Step, StoreError> {
        let beat = [&request.beat];
        let args = beat.into_iter().chain(numbers).map(u64::to_string);
        self.step("renounce", "renounced", request, args.collect())
            .await
    }

    async fn step(
        &self,
        verb: &'static str,
        done: &str,
        request: &RenewRequest,
        args: Vec<String>,
    ) -> Result<Step, StoreError> {
        let (pool, epoch) = holder_of(request);
        let reply = self.run(Call::of_holder(verb, pool, epoch, args)).await?;
        match reply.as_slice() {
            [word, _] if word == done => Ok(Step::Done),
            [word] if word == "stale" => Ok(Step::Stale),
            _ => Err(unexpected(pool, verb, reply)),
        }
    }
}

fn holder_of(request: &RenewRequest) -> (&PoolName, &Epoch) {
    (&request.pool, &request.holder.epoch)
}
