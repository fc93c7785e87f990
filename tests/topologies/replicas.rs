//! `redis.wait_replicas`: a lease that a failover could lose is not given.

use super::desk::{Desk, at, guarded};
use harness::redis::{Redis, Settings};
use harness::{eventually, fleet, ports};
use redis_sidecar::error::StoreError;
use redis_sidecar::settings::RedisSettings;
use tempfile::TempDir;

pub(super) struct Pair {
    pub(super) primary: Redis,
    pub(super) replica: Redis,
    _directory: TempDir,
}

impl Pair {
    pub(super) async fn start() -> Self {
        let directory = fleet::scratch();
        let place = |name: &str| {
            let place = directory.path().join(name);
            std::fs::create_dir_all(&place).expect("a directory");
            place
        };
        let primary = Redis::start(ports::free(), &place("primary"));
        primary.ready().await;
        let address = primary.address();
        let settings = Settings {
            arguments: vec![
                "--replicaof".into(),
                format!("{} {}", address.ip(), address.port()),
            ],
            ..Settings::default()
        };
        let replica = Redis::start_with(ports::free(), settings, &place("replica"));
        replica.ready().await;
        let pair = Self {
            primary,
            replica,
            _directory: directory,
        };
        eventually("the replica is in step", async || {
            pair.primary.told("WAIT 1 100").await == "1"
        })
        .await;
        pair
    }

    pub(super) fn settings(&self, wait_replicas: u32) -> RedisSettings {
        RedisSettings {
            wait_replicas,
            ..at(self.primary.url())
        }
    }
}

#[tokio::test]
async fn a_lease_that_no_replica_has_is_taken_back() {
    let pair = Pair::start().await;
    let desk = Desk::open(&pair.settings(1)).await;
    desk.take(1).await;
    pair.replica.process.freeze().await;
    let refused = desk.ask(&desk.mint()).await;
    let Err(StoreError::Unreplicated { replicas, wanted }) = refused else {
        panic!("given without a replica: {refused:?}");
    };
    assert_eq!((replicas, wanted), (0, 1));
    desk.assert_none_left_over(1).await;
    pair.replica.process.thaw();
    desk.settled().await;
    desk.assert_exact(1).await;
}

#[tokio::test]
async fn the_printed_line_is_enough_to_wait() {
    let pair = Pair::start().await;
    let (settings, _password) = guarded(pair.settings(1), [&pair.primary]).await;
    let desk = Desk::open(&settings).await;
    desk.take(1).await;
    pair.primary.told("ACL SETUSER berth -wait").await;
    let refused = desk.ask(&desk.mint()).await;
    assert!(
        matches!(refused, Err(StoreError::Unreplicated { .. })),
        "waiting is not needed: {refused:?}"
    );
    desk.assert_none_left_over(1).await;
}

/// They come one behind the other, and the server is as well as before.
#[tokio::test]
async fn many_that_wait_in_vain_leave_nothing_and_break_nothing() {
    let pair = Pair::start().await;
    let desk = Desk::with_places(&pair.settings(1), 1000).await;
    let losses = desk.losses();
    pair.replica.process.freeze().await;
    let leases: Vec<_> = (0..64).map(|_| desk.mint()).collect();
    let answers = futures_util::future::join_all(leases.iter().map(|lease| desk.ask(lease))).await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    desk.assert_none_left_over(0).await;
    assert_eq!(desk.losses(), losses, "a Redis that was well was given up");
    pair.replica.process.thaw();
    desk.settled().await;
}

#[tokio::test]
async fn without_it_nobody_waits() {
    let pair = Pair::start().await;
    let desk = Desk::open(&pair.settings(0)).await;
    pair.replica.process.freeze().await;
    desk.take(2).await;
    assert_eq!(desk.active().await, 2);
}

/// Prints what it costs, on this machine and with everything on it.
#[cfg(feature = "full")]
#[tokio::test(flavor = "multi_thread")]
async fn the_price_of_waiting_for_a_replica() {
    use futures_util::future::join_all;
    use std::time::{Duration, Instant};
    const ROUNDS: usize = 5;
    const LASTING: Duration = Duration::from_secs(1);
    /// Admits and releases in this time, by so many at once; and how long the middle one took.
    async fn rate(desk: &Desk, askers: usize) -> (f64, Duration) {
        let start = Instant::now();
        let ask = async || {
            let mut times = Vec::new();
            while start.elapsed() < LASTING {
                let asked = Instant::now();
                assert!(desk.decides().await);
                times.push(asked.elapsed());
            }
            times
        };
        let mut times = join_all((0..askers).map(|_| ask())).await.concat();
        times.sort_unstable();
        let rate = times.len() as f64 / start.elapsed().as_secs_f64();
        (rate, times[times.len() / 2])
    }
    let pair = Pair::start().await;
    let plain = Desk::with_places(&pair.settings(0), 1000).await;
    let strict = Desk::with_places(&pair.settings(1), 1000).await;
    for askers in [1, 32] {
        let (mut rates, mut medians) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..ROUNDS {
            for (place, desk) in [&plain, &strict].into_iter().enumerate() {
                let (rate, median) = rate(desk, askers).await;
                rates[place].push(rate);
                medians[place].push(median.as_secs_f64() * 1e3);
            }
        }
        let middle = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        let [plain, strict] = rates.each_mut().map(middle);
        let [plain_ms, strict_ms] = medians.each_mut().map(middle);
        eprintln!(
            "{askers} at once: {plain:.0} visits a second ({plain_ms:.2} ms each), with wait_replicas = 1 \
             {strict:.0} ({strict_ms:.2} ms): {:.2} of it",
            strict / plain
        );
        assert!(strict > 0.0);
    }
}
