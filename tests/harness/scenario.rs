//! What happens to a fleet in the tests of faults, and what must hold then, whether its parts are processes or
//! containers. Each begins with a fleet in service without a session, or with those that it is given.

use crate::client::{Session, close_all};
use crate::fault::{Fault, Raised};
use crate::fleet::Outlook;
use crate::prober::Prober;
use crate::recovery::Promise;
use crate::wait::eventually;
use std::time::{Duration, Instant};

/// Rows 1 and 2: the first Envoy, which has all the sessions, is no more. Its places come back, none before
/// its worker has seen the session end, and the other Envoy can give them out.
pub async fn places_return(fleet: &mut impl Raised, fault: Fault, promise: Promise) {
    let start = Instant::now();
    fleet.harm(fault).await;
    let all_back = async || {
        let Ok(view) = fleet.apis[1].view().await else {
            return false;
        };
        // Sessions only end now: those that are open after the look were open before.
        let open = fleet.open_at_workers() as u64;
        let active = view.active;
        assert!(active >= open, "{active} places for {open} open sessions");
        active == 0
    };
    promise.kept_since(start, all_back).await;
    fleet.assert_consistent().await;
    eventually("the other proxy can give them out", async || {
        fleet.admits(1).await
    })
    .await;
}

/// Row 3: the first Envoy, which has as many sessions as there are places, stands still, and keeps them.
pub async fn places_are_kept(
    fleet: &mut impl Raised,
    fault: Fault,
    lasting: Duration,
    sessions: &[Session],
) {
    let places = sessions.len() as u64;
    fleet.harm(fault).await;
    fleet
        .stays(lasting, "all places are kept", |pool| pool.active == places)
        .await;
    fleet.assert_full(1).await;
}

/// Row 7: the sidecar that the first Envoy asks is away, and the spare serves. Nobody loses a place, even if
/// that takes longer than a holder is believed.
pub async fn spare_serves(
    fleet: &mut impl Raised,
    fault: Fault,
    lasting: Duration,
    (promise, sessions): (Promise, &mut [Session]),
) {
    eventually("Envoy knows that both are well", async || {
        fleet.healthy_sidecars(0).await == 2
    })
    .await;
    // Else the fault would meet nobody.
    eventually("Envoy asks the first", async || {
        let before = admissions(fleet).await;
        fleet.admits(0).await && admissions(fleet).await > before
    })
    .await;
    let prober = Prober::start(fleet.client());
    fleet.harm(fault).await;
    tokio::time::sleep(lasting).await;
    let probes = prober.stop().await;
    let view = fleet.apis[1].view().await;
    let view = view.expect("the spare shows the pool");
    let count = sessions.len();
    assert_eq!(view.reclaimed(), 0, "{view:#?}");
    assert!(view.active >= count as u64, "{view:#?}");
    assert_eq!(fleet.alive(sessions).await, count);
    probes.assert_typed_in_time();
    promise.kept_in(probes.longest_gap());
}

/// Admissions by the first sidecar.
async fn admissions(fleet: &Outlook) -> u64 {
    let metrics = fleet.api().metrics().await.unwrap_or_default();
    let mut lines = metrics.lines();
    let line = lines.find_map(|line| line.strip_prefix("berth_admissions_total{"));
    let figure = line.and_then(|line| line.rsplit_once(' '));
    figure
        .and_then(|(_, figure)| figure.parse().ok())
        .unwrap_or(0)
}

/// Rows 8 and 14: for as long nobody can ask Redis. That is told in time, and costs nobody a place.
pub async fn outage_costs_nothing(
    fleet: &mut impl Raised,
    fault: Fault,
    lasting: Duration,
    (promise, sessions): (Promise, Vec<Session>),
) {
    fleet.harm(fault).await;
    let prober = Prober::start(fleet.client());
    tokio::time::sleep(lasting).await;
    let probes = prober.stop().await;
    fleet.heal(fault).await;
    probes.assert_typed_in_time();
    assert_eq!(probes.admitted(), 0);
    serves_again(fleet, promise).await;
    fleet.assert_unharmed(sessions).await;
}

/// The first Envoy gives places again, in time from now.
pub async fn serves_again(fleet: &Outlook, promise: Promise) {
    let served = async || fleet.admits(0).await;
    promise.kept_since(Instant::now(), served).await;
}

/// Rows 9 and 10: Redis lost what it had, or some of it, while every place was taken. It is exact again in time.
pub async fn rebuilt(
    fleet: &Outlook,
    sessions: Vec<Session>,
    prober: Prober,
    (promise, start): (Promise, Instant),
) {
    let places = sessions.len();
    let exact = async || fleet.is_exact(places).await;
    promise.kept_since(start, exact).await;
    unscathed(fleet, sessions, prober).await;
}

/// Every place was taken and is: nobody came in, nobody was dropped, and afterwards every place can be had
/// again.
pub async fn unscathed(fleet: &Outlook, mut sessions: Vec<Session>, prober: Prober) {
    let places = sessions.len();
    let probes = prober.stop().await;
    assert_eq!(probes.admitted(), 0, "{probes:?}");
    probes.assert_typed_in_time();
    let alive = fleet.alive(&mut sessions).await;
    assert_eq!(alive, places, "nobody was dropped");
    let view = fleet.view().await;
    assert_eq!(view.repaired("overcommitted"), 0, "{view:#?}");
    assert_eq!(view.reclaimed(), 0, "{view:#?}");
    fleet.assert_consistent().await;
    close_all(sessions.split_off(places / 2)).await;
    let half = sessions.len() as u64;
    fleet
        .sees("half of the places are free", |pool| pool.active == half)
        .await;
    for envoy in [0, 1] {
        eventually("places are given again", async || fleet.admits(envoy).await).await;
    }
}

/// Row 17: the only worker, which is full, dies and comes back. Its places are free again.
pub async fn worker_starts_anew(fleet: &mut impl Raised, fault: Fault, promise: Promise) {
    let start = Instant::now();
    fleet.harm(fault).await;
    fleet.heal(fault).await;
    let served = async || fleet.admits(0).await;
    promise.kept_since(start, served).await;
}
