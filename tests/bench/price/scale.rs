//! How the cost of a decision grows: with workers and with pools, over a Redis Cluster of three; and with
//! the leases that a Redis already holds. Told as CPU time of Redis, because several shards that share a
//! machine's cores would otherwise measure its scheduler.

#[path = "scale/cluster.rs"]
mod cluster;
#[path = "scale/leases.rs"]
mod leases;

use crate::claims::{self, Claim, Verdict};
use crate::machine::{self, Machine};
use cluster::Shards;
use harness::http::Failure;
use leases::Leases;
use serde_json::json;

/// Decisions at a million live leases against those at a thousand; bytes of Redis for each lease, and
/// for each of a client of its own.
const FLAT_MIN: f64 = 0.8;
const LEASE_BYTES_MAX: f64 = 150.0;
const CLIENT_LEASE_BYTES_MAX: f64 = 250.0;

pub(crate) async fn run() -> Result<Verdict, Failure> {
    let machine = Machine::here()?;
    let Shards { workers, pools } = cluster::measure().await?;
    let Leases {
        levels,
        bytes_each,
        client_bytes_each,
        key_bytes_each,
    } = leases::measure().await?;
    let rate = |row: Option<&leases::Level>| row.map_or(f64::NAN, |row| row.per_cpu_s);
    let claims = vec![
        Claim::at_least(
            FLAT_MIN,
            rate(levels.last()) / rate(levels.first()),
            "decisions for a second of Redis' CPU, at 1,000,000 live leases to 1,000",
        ),
        Claim::at_most(LEASE_BYTES_MAX, bytes_each, "bytes of Redis for a lease"),
        Claim::at_most(
            CLIENT_LEASE_BYTES_MAX,
            client_bytes_each,
            "bytes of Redis for a lease with a client of its own",
        ),
    ];
    cluster::print(&workers, "workers");
    cluster::print(&pools, "pools");
    leases::print(&levels);
    tell_bytes(bytes_each, client_bytes_each, key_bytes_each);
    let verdict = claims::tell(&claims);
    let figures = json!({
        "workers": workers,
        "pools": pools,
        "leases": levels,
        "redis_bytes_each": bytes_each,
        "redis_bytes_each_with_client": client_bytes_each,
        "redis_bytes_of_a_plain_key": key_bytes_each,
        "claims": claims,
    });
    machine::keep("scale", &machine, figures)?;
    Ok(verdict)
}

#[expect(clippy::print_stdout, reason = "the figures are what was asked for")]
fn tell_bytes(lease: f64, with_client: f64, key: f64) {
    println!(
        "bytes of Redis: a lease {lease:.0}, with a client of its own {with_client:.0}; a key of its own with an expiry, set by hand, {key:.0}"
    );
}
