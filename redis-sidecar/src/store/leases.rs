//! Leases: taken, given back, spoken for.

use super::{Call, Store, request_args, text_or_empty, unexpected};
use crate::decode;
use crate::error::StoreError;
use crate::request_keys::{RequestKeys, hash};
use admission::id::{Epoch, PoolName};
use admission::message::{
    AdmitAnswer, AdmitRequest, BindAnswer, BindRequest, Observation, ObserveAnswer, Release, Use,
};

impl Store {
    pub async fn admit(&self, request: &AdmitRequest) -> Result<AdmitAnswer, StoreError> {
        let keys = RequestKeys::of(request);
        let known = request_args(request.bytes, request.operation, request.own.as_ref());
        let lease = [request.lease.seq.to_string(), request.lease.to_string()];
        let bind = request.affinity.as_ref().is_some_and(|it| it.bind);
        let rest = [
            request.holder.proxy.to_string(),
            text_or_empty(keys.client),
            text_or_empty(keys.affinity),
            u8::from(bind).to_string(),
            u8::from(request.redirect).to_string(),
        ];
        let args = lease.into_iter().chain(known).chain(rest).collect();
        let (pool, epoch) = (&request.pool, &request.lease.epoch);
        match self.admit_together(pool, epoch, args).await {
            Ok(reply) => decode::decision(request, keys, &reply)
                .ok_or_else(|| unexpected(pool, "admit", reply)),
            Err(error) => {
                // It may have been taken all the same.
                if self.wait_replicas > 0 && error.is_outage() {
                    self.take_back(request).await;
                }
                Err(StoreError::clone(&error))
            }
        }
    }

    /// A lease that a failover could lose is not given. The filter releases it too: if this fails, that
    /// does not.
    async fn take_back(&self, request: &AdmitRequest) {
        let release = Release::unused(request.lease.clone());
        let epoch = &request.lease.epoch;
        if let Err(error) = self.release(&request.pool, epoch, &[release]).await {
            tracing::debug!(%error, "a lease that replicas lack is not released yet");
        }
    }

    /// Returns for each lease whether it was held until now.
    pub async fn release(
        &self,
        pool: &PoolName,
        epoch: &Epoch,
        releases: &[Release],
    ) -> Result<Vec<bool>, StoreError> {
        let args = releases.iter().flat_map(|release| {
            let r#use = match release.r#use {
                Use::Used => "used",
                Use::Unused => "unused",
            };
            [
                release.lease.seq.to_string(),
                release.lease.to_string(),
                r#use.to_owned(),
                release.outcome.as_str().to_owned(),
                text_or_empty(release.handshake_us),
                text_or_empty(release.upgrade_us),
                text_or_empty(release.session_us),
                release.bytes_read.to_string(),
                release.bytes_written.to_string(),
                text_or_empty(release.unbind),
            ]
        });
        let call = Call::of_holder("release", pool, epoch, args.collect());
        let reply = self.run(call).await?;
        decode::held(&reply).ok_or_else(|| unexpected(pool, "release", reply))
    }

    pub async fn bind(&self, request: &BindRequest) -> Result<BindAnswer, StoreError> {
        let (pool, lease) = (&request.pool, &request.lease);
        let key = hash(pool, &request.key);
        let args = vec![lease.seq.to_string(), key.to_string()];
        let call = Call::of_holder("bind", pool, &lease.epoch, args);
        let reply = self.run(call).await?;
        match reply.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["bound"] => Ok(BindAnswer { bound: true }),
            ["unheld" | "full"] => Ok(BindAnswer { bound: false }),
            _ => Err(unexpected(pool, "bind", reply)),
        }
    }

    pub async fn observe(
        &self,
        pool: &PoolName,
        epoch: &Epoch,
        observations: &[Observation],
    ) -> Result<ObserveAnswer, StoreError> {
        let args = observations.iter().flat_map(|seen| {
            [
                seen.lease.seq.to_string(),
                seen.outcome.as_str().to_owned(),
                text_or_empty(seen.handshake_us),
            ]
        });
        let call = Call::of_holder("observe", pool, epoch, args.collect());
        let reply = self.run(call).await?;
        match decode::counts("observed", &reply) {
            Some((observed, unknown)) => Ok(ObserveAnswer { observed, unknown }),
            None => Err(unexpected(pool, "observe", reply)),
        }
    }
}
