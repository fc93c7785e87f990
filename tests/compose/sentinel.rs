//! The profile `sentinel`: another Redis becomes the primary.

use harness::{Compose, Fault, Part, Prober, Promise, Raised, scenario};
use std::time::Instant;

const PLACES: usize = 20;
const WORKERS: usize = 2;

#[tokio::test]
async fn a_primary_that_is_killed_costs_nobody_a_place() {
    let fleet = Compose::new().sentinels().workers(WORKERS);
    let mut fleet = fleet.max_concurrent((PLACES / WORKERS) as u32).up().await;
    let sessions = fleet.sessions(PLACES).await;
    let former = fleet.primary().await.expect("a Sentinel knows the primary");
    let prober = Prober::start(fleet.client());
    let (fault, start) = (Fault::Killed(Part::Redis), Instant::now());
    fleet.harm(fault).await;
    let promoted = fleet.promoted(&former).await;
    let exact = async || fleet.is_exact(PLACES).await && fleet.primary_has_the_pool().await;
    let promise = Promise::new(11, "compose: primary killed, from the promotion", 5000);
    promise.kept_since(promoted, exact).await;
    Promise::new(11, "compose: primary killed, in all", 10_000).kept_in(start.elapsed());
    scenario::unscathed(&fleet, sessions, prober).await;
    // The former primary comes back as a replica.
    fleet.heal(fault).await;
    fleet.has_replicas(2).await;
}
