//! What the sidecar's hop costs: admissions over HTTP beside redis-benchmark, which runs the same script
//! with nothing between, and beside a script that does nothing. What the script itself costs is told here too.

#[path = "sidecar/calls.rs"]
mod calls;

use crate::backend::Backend;
use crate::claims::{self, Claim, Verdict};
use crate::load::{self, Load, Turn};
use crate::machine::{self, Machine};
use crate::measure::{Figure, LOAD, Meter};
use crate::scripts::{self, ClientKey, Pace, REDIS, Scripts};
use crate::site;
use admission::id::Epoch;
use admission::message::{ADMIT_GROUP_PATH, ADMIT_PATH, RELEASE_PATH};
use harness::fleet;
use harness::http::Failure;
use harness::redis::Redis;
use harness::sidecar::Sidecar;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ROUNDS: usize = 5;
const CONCURRENCIES: [u64; 4] = [1, 4, 16, 64];
const WARM_UP: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_millis(800);
/// What redis-benchmark is asked for, for about as long.
const CALLS: u64 = 8_000;
/// Where the script's own time is told: so many calls under way that Redis is never idle.
const PIPELINED: Pace = Pace {
    connections: 16,
    pipeline: 16,
    calls: 20_000,
};
/// Where the hop is judged.
const JUDGED: [u64; 2] = [16, 64];
/// How many questions the filter has in a call when it has much to ask.
const TOGETHER: u64 = 8;

/// Admissions through the sidecar as it is shipped against redis-benchmark, each by an HTTP call of its own and
/// several in one; calls that the script makes; its time.
const TO_CEILING_MIN: f64 = 0.8;
const GROUPED_TO_CEILING_MIN: f64 = 1.0;
const BASE_CALLS_MAX: f64 = 10.0;
const ALL_CALLS_MAX: f64 = 15.0;
const SCRIPT_US_MAX: f64 = 30.0;

const SIDECAR: &str = "sidecar";

/// Numbers of one client's leases: below 2^24 for all together, the numbers of a holder's first beat.
const NUMBERS_EACH: u64 = 100_000;

struct Round {
    concurrency: u64,
    admissions: f64,
    /// A script call for each.
    alone: f64,
    /// As the filter asks, so many in one call. Nothing where fewer ask at once.
    asked_together: Option<f64>,
    pairs: f64,
    ceiling: f64,
    nothing: f64,
    sidecar_us: f64,
    load_us: f64,
    redis_us: f64,
    redis_us_of_ceiling: f64,
}

pub(crate) async fn run() -> Result<Verdict, Failure> {
    let machine = Machine::here()?;
    let directory = fleet::scratch();
    let place = directory.path();
    let backend = Backend::start(place).await?;
    let redis = site::redis("redis", place).await?;
    let sidecar = site::sidecar("sidecar", &redis, site::policy(), &backend, place).await?;
    let each_alone = json!({"redis": {"group_max": 1}});
    let alone = site::sidecar_with("alone", &redis, site::policy(), &backend, place, each_alone);
    let alone = alone.await?;
    let stage = Stage {
        sidecar: &sidecar,
        alone: &alone,
        redis: &redis,
    };
    let mut scripts = Scripts::of(&redis).await?;
    let (mut rounds, mut script_us) = (Vec::new(), Vec::new());
    let (mut nothing_us, mut counting_us) = (Vec::new(), Vec::new());
    let mut holder = 0;
    for round in 1..=ROUNDS {
        for concurrency in CONCURRENCIES {
            rounds.push(measure(concurrency, &stage, &mut scripts, &mut holder).await?);
        }
        let piped = scripts.admit(PIPELINED, ClientKey::None)?;
        script_us.push(piped.spent.us_each(REDIS, piped.calls));
        let piped = scripts.nothing(PIPELINED).await?;
        nothing_us.push(piped.spent.us_each(REDIS, piped.calls));
        let piped = scripts.counting(PIPELINED).await?;
        counting_us.push(piped.spent.us_each(REDIS, piped.calls));
        eprintln!("round {round} of {ROUNDS}: done");
    }
    let store = scripts::store(redis.url(), BTreeMap::new(), 0).await?;
    let taken = scripts.leases(&store).await?;
    let asked = (ROUNDS as u64) * (4 * CALLS + PIPELINED.calls);
    if taken * 100 < asked * 99 {
        return Err(format!("of more than {asked} admissions only {taken} were given").into());
    }
    let table: Vec<Value> = CONCURRENCIES.map(|it| row(&rounds, it)).into();
    let (script, nothing) = (Figure::of(script_us), Figure::of(nothing_us));
    let counting = Figure::of(counting_us);
    let calls = calls::count(place).await?;
    let claims = judge(&table, script, &calls);
    print(&table, &calls);
    tell_script(script, nothing, counting);
    let verdict = claims::tell(&claims);
    let figures = json!({
        "concurrencies": table,
        "script_us_pipeline_16": script,
        "nothing_us_pipeline_16": nothing,
        "counting_us_pipeline_16": counting,
        "redis_calls": calls,
        "rounds": ROUNDS,
        "claims": claims,
    });
    machine::keep("sidecar", &machine, figures)?;
    Ok(verdict)
}

/// Two sidecars of one Redis, the first as it is shipped.
struct Stage<'a> {
    sidecar: &'a Sidecar,
    alone: &'a Sidecar,
    redis: &'a Redis,
}

async fn measure(
    concurrency: u64,
    stage: &Stage<'_>,
    scripts: &mut Scripts<'_>,
    holder: &mut u8,
) -> Result<Round, Failure> {
    let Stage {
        sidecar,
        alone,
        redis,
    } = stage;
    let load = |clients: u64, sidecar: &Sidecar| Load {
        clients,
        target: sidecar.listen(),
        warm_up: WARM_UP,
        window: WINDOW,
    };
    let meter = Meter::of([(SIDECAR, &sidecar.process), (REDIS, &redis.process)]);
    let mut epoch = || {
        *holder += 1;
        Epoch::from_random([*holder; 16])
    };
    let all = load(concurrency, sidecar);
    let first = epoch();
    let admitted = all.drive(move |turn| admit(&first, turn), &meter).await?;
    let second = epoch();
    let paired = all.drive(move |turn| admit_or_release(&second, turn), &meter);
    let paired = paired.await?;
    let third = epoch();
    let each_alone = load(concurrency, alone);
    let each_alone = each_alone.drive(move |turn| admit(&third, turn), &meter);
    let each_alone = each_alone.await?;
    let callers = concurrency / TOGETHER;
    let asked_together = if callers > 0 {
        let fourth = epoch();
        let few = load(callers, sidecar);
        let answers = few.drive(move |turn| admit_together(&fourth, turn), &meter);
        Some(answers.await?.per_second * TOGETHER as f64)
    } else {
        None
    };
    let pace = Pace {
        connections: concurrency,
        pipeline: 1,
        calls: CALLS,
    };
    let ceiling = scripts.admit(pace, ClientKey::None)?;
    let nothing = scripts.nothing(pace).await?;
    Ok(Round {
        concurrency,
        admissions: admitted.per_second,
        alone: each_alone.per_second,
        asked_together,
        pairs: paired.per_second / 2.0,
        ceiling: ceiling.per_second,
        nothing: nothing.per_second,
        sidecar_us: admitted.spent.us_each(SIDECAR, admitted.count),
        load_us: admitted.spent.us_each(LOAD, admitted.count),
        redis_us: admitted.spent.us_each(REDIS, admitted.count),
        redis_us_of_ceiling: ceiling.spent.us_each(REDIS, ceiling.calls),
    })
}

fn admit(epoch: &Epoch, turn: Turn) -> Vec<u8> {
    let number = turn.client * NUMBERS_EACH + turn.before + 1;
    let body = format!(
        r#"{{"pool":"{}","holder":"bench/{epoch}","lease":"{epoch}.{number}"}}"#,
        fleet::pool()
    );
    load::post(ADMIT_PATH, &body)
}

/// So many as the filter would ask at once, all of one holder.
fn admit_together(epoch: &Epoch, turn: Turn) -> Vec<u8> {
    let first = turn.client * NUMBERS_EACH + turn.before * TOGETHER + 1;
    let questions: Vec<String> = (first..first + TOGETHER)
        .map(|number| format!(r#"{{"number":{number}}}"#))
        .collect();
    let body = format!(
        r#"{{"pool":"{}","holder":"bench/{epoch}","questions":[{}]}}"#,
        fleet::pool(),
        questions.join(",")
    );
    load::post(ADMIT_GROUP_PATH, &body)
}

/// Every second question gives back what the one before it took.
fn admit_or_release(epoch: &Epoch, turn: Turn) -> Vec<u8> {
    let before = turn.before / 2;
    if turn.before.is_multiple_of(2) {
        return admit(epoch, Turn { before, ..turn });
    }
    let number = turn.client * NUMBERS_EACH + before + 1;
    let body = format!(
        r#"{{"pool":"{}","holder":"bench/{epoch}","releases":[{{"lease":"{epoch}.{number}","use":"used","outcome":"success"}}]}}"#,
        fleet::pool()
    );
    load::post(RELEASE_PATH, &body)
}

fn row(rounds: &[Round], concurrency: u64) -> Value {
    let figure = |value: fn(&Round) -> f64| {
        let rounds = rounds
            .iter()
            .filter(|round| round.concurrency == concurrency);
        Figure::of(rounds.map(value)).median
    };
    json!({
        "concurrency": concurrency,
        "sidecar_admissions_per_s": figure(|round| round.admissions),
        "sidecar_pairs_per_s": figure(|round| round.pairs),
        "redis_benchmark_admissions_per_s": figure(|round| round.ceiling),
        "redis_benchmark_nothing_per_s": figure(|round| round.nothing),
        "sidecar_alone_admissions_per_s": figure(|round| round.alone),
        "sidecar_together_admissions_per_s": figure(|round| round.asked_together.unwrap_or(f64::NAN)),
        "to_ceiling": figure(|round| round.admissions / round.ceiling),
        "alone_to_ceiling": figure(|round| round.alone / round.ceiling),
        "together_to_ceiling":
            figure(|round| round.asked_together.map_or(f64::NAN, |it| it / round.ceiling)),
        "sidecar_us": figure(|round| round.sidecar_us),
        "redis_us": figure(|round| round.redis_us),
        "redis_us_of_redis_benchmark": figure(|round| round.redis_us_of_ceiling),
        "load_us": figure(|round| round.load_us),
    })
}

fn judge(table: &[Value], script: Figure, calls: &Value) -> Vec<Claim> {
    let ratio = |concurrency: u64, name: &str| {
        let row = table.iter().find(|row| row["concurrency"] == concurrency);
        row.and_then(|row| row[name].as_f64()).unwrap_or(f64::NAN)
    };
    let mut claims = Vec::new();
    for concurrency in JUDGED {
        for (name, least, how) in [
            (
                "to_ceiling",
                TO_CEILING_MIN,
                "as shipped, each by an HTTP call of its own",
            ),
            (
                "together_to_ceiling",
                GROUPED_TO_CEILING_MIN,
                "as shipped, eight in an HTTP call, as the filter asks",
            ),
        ] {
            let what = format!(
                "admissions per second at {concurrency} at once, {how}, the sidecar to redis-benchmark"
            );
            claims.push(Claim::at_least(least, ratio(concurrency, name), what));
        }
    }
    let calls = |name: &str| calls[name].as_f64().unwrap_or(f64::NAN);
    claims.extend([
        Claim::at_most(BASE_CALLS_MAX, calls("base"), "Redis calls of an admission"),
        Claim::at_most(
            ALL_CALLS_MAX,
            calls("everything"),
            "Redis calls of an admission with every limit, client, affinity and shadow",
        ),
        Claim::at_most(
            SCRIPT_US_MAX,
            script.median,
            "CPU µs of Redis for an admission, pipelines of 16",
        ),
    ]);
    claims
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn tell_script(script: Figure, nothing: Figure, counting: Figure) {
    println!(
        "in pipelines of 16 an admission takes {} µs of Redis' CPU ({} to {}), a script that does nothing {}, one that counts to 1,000 {}",
        script.median, script.min, script.max, nothing.median, counting.median
    );
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn print(table: &[Value], calls: &Value) {
    println!(
        "{:>8} | per s: {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} | CPU µs each: {:>7} {:>6} {:>13} {:>6}",
        "at once",
        "sidecar",
        "alone",
        "together",
        "pairs",
        "benchmark",
        "nothing",
        "ratio",
        "sidecar",
        "Redis",
        "its benchmark",
        "load"
    );
    for row in table {
        let figure = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:>8} | {:>15.0} {:>8.0} {:>8.0} {:>8.0} {:>9.0} {:>9.0} {:>8.2} | {:>20.0} {:>6.0} {:>13.0} {:>6.0}",
            figure("concurrency"),
            figure("sidecar_admissions_per_s"),
            figure("sidecar_alone_admissions_per_s"),
            figure("sidecar_together_admissions_per_s"),
            figure("sidecar_pairs_per_s"),
            figure("redis_benchmark_admissions_per_s"),
            figure("redis_benchmark_nothing_per_s"),
            figure("to_ceiling"),
            figure("sidecar_us"),
            figure("redis_us"),
            figure("redis_us_of_redis_benchmark"),
            figure("load_us"),
        );
    }
    println!("calls inside of an admission: {calls}");
}
