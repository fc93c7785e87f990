//! A filter VM's life, as far as the store sees it.

use super::{Pool, holder};
use admission::id::{BEAT_SHIFT, HolderId, LeaseId};
use admission::message::{
    AdmitAnswer, AdmitRequest, Admitted, DenyReason, Held, Place, Release, RenewAnswer,
    RenewRequest,
};
use redis_sidecar::store::{Sign, Standing};
use std::collections::BTreeMap;

pub(crate) struct Vm<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) holder: HolderId,
    pub(crate) beat: u64,
    minted: u64,
    pub(crate) held: BTreeMap<u64, Admitted>,
    /// The rebuild that it has heard of.
    rebuild: Option<u64>,
}

impl<'a> Vm<'a> {
    pub(crate) fn new(pool: &'a Pool, number: u8) -> Self {
        Self {
            pool,
            holder: holder(number),
            beat: 0,
            minted: 0,
            held: BTreeMap::new(),
            rebuild: None,
        }
    }

    /// A lease's number, after the last beat.
    pub(crate) fn mint(&mut self) -> u64 {
        self.minted += 1;
        (self.beat << BEAT_SHIFT) + self.minted
    }

    pub(crate) fn lease(&self, seq: u64) -> LeaseId {
        let epoch = self.holder.epoch.clone();
        LeaseId { epoch, seq }
    }

    pub(crate) async fn ask(&mut self, number: u64) -> AdmitAnswer {
        let (pool, lease) = (self.pool.name.clone(), self.lease(number));
        let request = AdmitRequest::new(pool, self.holder.clone(), lease);
        let answer = self.pool.store.admit(&request).await.expect("a decision");
        if let AdmitAnswer::Admitted(admitted) = &answer {
            self.held.insert(number, admitted.clone());
        }
        answer
    }

    /// Asks for a new lease and must get it.
    pub(crate) async fn admit(&mut self) -> u64 {
        let number = self.mint();
        match self.ask(number).await {
            AdmitAnswer::Admitted(_) => number,
            answer => panic!("not admitted: {answer:?}"),
        }
    }

    pub(crate) async fn denied(&mut self, number: u64) -> DenyReason {
        match self.ask(number).await {
            AdmitAnswer::Denied(denied) => denied.reason,
            answer => panic!("not denied: {answer:?}"),
        }
    }

    /// A stream ends, and its release arrives.
    pub(crate) async fn release(&mut self, number: u64) {
        self.held.remove(&number);
        let release = Release::unused(self.lease(number));
        let (pool, epoch) = (&self.pool.name, &self.holder.epoch);
        let released = self.pool.store.release(pool, epoch, &[release]).await;
        released.expect("a release");
    }

    /// The next beat, with what is held in two numbers.
    pub(crate) fn next(&mut self) -> RenewRequest {
        self.beat += 1;
        let mut held = Held::default();
        self.held.keys().for_each(|number| held.add(*number));
        RenewRequest {
            pool: self.pool.name.clone(),
            holder: self.holder.clone(),
            beat: self.beat,
            asking: vec![],
            rebuild: self.rebuild,
            ended: vec![],
            held: Some(held),
            leases: None,
        }
    }

    /// The same, one by one.
    pub(crate) fn places(&self) -> Vec<Place> {
        let place = |(number, admitted): (&u64, &Admitted)| Place {
            worker: admitted.worker.clone(),
            incarnation: admitted.incarnation.clone(),
            address: admitted.address,
            leases: vec![(*number, admitted.lifetime)],
            clients: admitted
                .client
                .map(|client| (*number, client))
                .into_iter()
                .collect(),
        };
        self.held.iter().map(place).collect()
    }

    pub(crate) async fn send(&mut self, request: &RenewRequest) -> RenewAnswer {
        let answer = self.pool.store.renew(request).await.expect("an answer");
        self.rebuild = answer.rebuild;
        answer
    }

    pub(crate) async fn renew(&mut self) -> RenewAnswer {
        let request = self.next();
        self.send(&request).await
    }

    pub(crate) async fn list(&mut self) -> RenewAnswer {
        let mut request = self.next();
        request.leases = Some(self.places());
        self.send(&request).await
    }

    /// The number of the presence last heard of, as the store has it: 0 before the first.
    pub(crate) async fn last_presence(&self) -> u64 {
        /// After the format, the beat, a count and a digest: see lua/lib/holder.lua.
        const PRESENCE: std::ops::Range<usize> = 17..25;
        let key = format!("ws:{{{}}}:holder:{}", self.pool.name, self.holder.epoch);
        let mut connection = self.pool.redis.connection().await;
        let mut ask = redis::cmd("HGET");
        let head: Option<Vec<u8>> = ask
            .arg(key)
            .arg("head")
            .query_async(&mut connection)
            .await
            .expect("a head or none");
        head.map_or(0, |head| {
            f64::from_be_bytes(head[PRESENCE].try_into().expect("a number")) as u64
        })
    }

    pub(crate) async fn presence(&self, sign: Sign, number: u64) -> Standing {
        let store = &self.pool.store;
        let told = store.presence(&self.pool.name, &self.holder, sign, number);
        told.await.expect("a standing")
    }
}
