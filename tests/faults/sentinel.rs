//! Row 11: another Redis becomes the primary. Everyone keeps their session, and nobody gets its place.

use harness::client::Session;
use harness::{Fleet, Prober, Promise, RunningFleet, SentinelGroup, scenario};
use std::time::Instant;

const WORKERS: usize = 2;
const PLACES: usize = 20;

/// Every place is taken: whoever comes in now is one too many.
async fn full_house() -> (SentinelGroup, RunningFleet, Vec<Session>) {
    let group = SentinelGroup::start().await;
    let fleet = Fleet::new().redis_at(group.url()).as_shipped();
    let fleet = fleet.envoys(2).workers(WORKERS);
    let fleet = fleet.max_concurrent((PLACES / WORKERS) as u32).up().await;
    let sessions = fleet.sessions(PLACES).await;
    (group, fleet, sessions)
}

/// What is measured: from the promotion, and from the fault.
struct Promises {
    after_promotion: Promise,
    in_all: Promise,
}

impl Promises {
    /// Of the whole, the Sentinels need what they need: a second until they notice, and an election.
    const fn new(after_promotion: &'static str, in_all: &'static str) -> Self {
        Self {
            after_promotion: Promise::new(11, after_promotion, 5000),
            in_all: Promise::new(11, in_all, 10_000),
        }
    }
}

async fn assert_survives(
    promises: Promises,
    harm: impl AsyncFnOnce(&SentinelGroup),
) -> (SentinelGroup, RunningFleet) {
    let (group, fleet, sessions) = full_house().await;
    let prober = Prober::start(fleet.client());
    let start = Instant::now();
    harm(&group).await;
    let (primary, promoted) = group.promoted(0).await;
    // A primary that was replaced while it was well answers on: whoever still asks it has not followed.
    let followed = || {
        let mut sidecars = fleet.sidecars.iter();
        sidecars.all(|sidecar| sidecar.process.logged("Redis is back") > 0)
    };
    let exact = async || {
        followed() && group.servers[primary].has_the_pool().await && fleet.is_exact(PLACES).await
    };
    promises.after_promotion.kept_since(promoted, exact).await;
    promises.in_all.kept_in(start.elapsed());
    scenario::unscathed(&fleet, sessions, prober).await;
    (group, fleet)
}

#[tokio::test]
async fn a_primary_that_dies_costs_nobody_a_place() {
    let promises = Promises::new(
        "primary killed, from the promotion",
        "primary killed, in all",
    );
    let harm = async |group: &SentinelGroup| group.servers[0].process.kill();
    assert_survives(promises, harm).await;
}

#[tokio::test]
async fn a_primary_that_stands_still_costs_nobody_a_place() {
    let promises = Promises::new(
        "primary stopped, from the promotion",
        "primary stopped, in all",
    );
    let harm = async |group: &SentinelGroup| group.servers[0].process.freeze().await;
    assert_survives(promises, harm).await;
}

#[tokio::test]
async fn a_failover_by_an_operator_costs_nobody_a_place() {
    let promises = Promises::new(
        "SENTINEL FAILOVER, from the promotion",
        "SENTINEL FAILOVER, in all",
    );
    let harm = async |group: &SentinelGroup| group.fail_over().await;
    assert_survives(promises, harm).await;
}

/// As if replication had never caught up: the holders are all that knows of the leases.
#[tokio::test]
async fn leases_that_no_replica_had_are_asserted_again() {
    let promises = Promises::new(
        "replicas empty, primary killed, from the promotion",
        "replicas empty, primary killed, in all",
    );
    let harm = async |group: &SentinelGroup| {
        // In this order: what came after would be a part of the state, which no failover leaves.
        group.servers[0].process.kill();
        group.empty_replicas().await;
    };
    let (_group, fleet) = assert_survives(promises, harm).await;
    let view = fleet.view().await;
    assert!(view.repaired("reasserted") >= PLACES as u64, "{view:#?}");
}
