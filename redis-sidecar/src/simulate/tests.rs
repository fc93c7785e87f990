use super::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, Spread, WorkerPlan};
use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn plan(strategy: Strategy, workers_ms: &[f64], clients: u32) -> Plan {
    Plan {
        policy: Policy {
            strategy,
            ..unlimited()
        },
        workers: workers_ms
            .iter()
            .copied()
            .map(WorkerPlan::constant)
            .collect(),
        queueing: Queueing::Delay,
        arrivals: Arrivals::Closed { clients },
        seconds: 10.0,
        seed: 1,
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 1000.0,
    }
}

const DIFFERENT: [f64; 4] = [5.0, 10.0, 50.0, 100.0];

fn mean_ms(plan: &Plan) -> f64 {
    run(plan).latency().unwrap().mean_ms
}

fn near(actual: f64, expected: f64, tolerance: f64) {
    let far = (actual - expected).abs() > tolerance;
    assert!(!far, "{actual} is not within {tolerance} of {expected}");
}

fn printed(arguments: &str) -> String {
    let words = ["simulate"].into_iter().chain(arguments.split(' '));
    let line = Line::try_parse_from(words).unwrap();
    simulate(&line.options).unwrap()
}

#[test]
fn clients_are_throughput_times_latency() {
    for queueing in [Queueing::Delay, Queueing::Fifo, Queueing::Shared] {
        for strategy in [Strategy::RoundRobin, Strategy::Random, Strategy::Sewt] {
            let mut plan = plan(strategy, &[20.0, 30.0], 8);
            plan.queueing = queueing;
            plan.workers[1].spread = Spread::Exponential;
            plan.seconds = 60.0;
            let run = run(&plan);
            near(
                run.per_s() * run.latency().unwrap().mean_ms / 1000.0,
                8.0,
                0.1,
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let mut plan = plan(Strategy::Random, &DIFFERENT, 16);
    plan.arrivals = Arrivals::Poisson { per_s: 100.0 };
    let first = run(&plan);
    assert_eq!(first, run(&plan));
    plan.seed = 2;
    assert_ne!(first, run(&plan));
}

#[test]
fn delays_give_the_means_that_can_be_calculated() {
    for (strategy, expected) in [
        (Strategy::RoundRobin, 41.25),
        (Strategy::LeastConnections, 12.1),
        (Strategy::Sewt, 6.9),
    ] {
        near(mean_ms(&plan(strategy, &DIFFERENT, 16)), expected, 0.1);
    }
}

#[test]
fn independent_requests_come_at_their_rate() {
    let mut plan = plan(Strategy::RoundRobin, &DIFFERENT, 0);
    plan.seconds = 100.0;
    for arrivals in [
        Arrivals::Poisson { per_s: 50.0 },
        Arrivals::Paced { per_s: 50.0 },
    ] {
        plan.arrivals = arrivals;
        near(run(&plan).per_s(), 50.0, 1.5);
    }
}

#[test]
fn a_queue_with_random_requests_waits_as_theory_says() {
    // One server, half busy: the mean is twice the service time, first come or shared.
    for queueing in [Queueing::Fifo, Queueing::Shared] {
        let mut plan = plan(Strategy::RoundRobin, &[10.0], 0);
        plan.arrivals = Arrivals::Poisson { per_s: 50.0 };
        plan.workers[0].spread = Spread::Exponential;
        plan.queueing = queueing;
        plan.seconds = 1000.0;
        near(mean_ms(&plan), 20.0, 1.0);
    }
}

#[test]
fn a_worker_at_its_limit_gets_nothing_until_it_has_restarted() {
    let mut plan = plan(Strategy::RoundRobin, &[100.0], 1);
    plan.policy.max_lifetime = 5;
    plan.policy.retry_after_ms = 100;
    plan.seconds = 60.0;
    let run = run(&plan);
    for pair in run.lifetimes.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        assert!(after.lifetime == before.lifetime + 1 || before.lifetime == 5);
        let wait_us = after.at_us - before.at_us;
        assert!(after.lifetime > 0 || wait_us >= 1_000_000, "{after:?}");
    }
    assert!(run.recycles > 5);
}

#[test]
fn sewt_is_faster_than_least_connections_on_different_workers() {
    let sewt = mean_ms(&plan(Strategy::Sewt, &DIFFERENT, 16));
    assert!(sewt < mean_ms(&plan(Strategy::LeastConnections, &DIFFERENT, 16)));
}

#[test]
fn sewt_is_nearly_even_on_like_workers_once_all_are_busy() {
    for (percent, clients) in [(5.0, 4), (5.0, 16), (15.0, 4), (15.0, 16)] {
        let mut plan = plan(Strategy::Sewt, &[20.0; 4], clients);
        for worker in &mut plan.workers {
            worker.spread = Spread::Uniform { percent };
        }
        for share in run(&plan).all_shares() {
            near(share, 25.0, 2.0);
        }
    }
}

#[test]
fn traffic_leaves_a_worker_that_slows_down() {
    let mut plan = plan(Strategy::Sewt, &[20.0; 4], 16);
    plan.workers[0].change = Some(workload::Change {
        at_ms: 5_000.0,
        mean_ms: 200.0,
    });
    let run = run(&plan);
    near(run.shares(0..5_000_000)[0], 25.0, 1.0);
    assert!(run.shares(6_000_000..10_000_000)[0] < 2.0);
}

#[test]
fn a_newcomer_is_taken_in() {
    for strategy in [
        Strategy::RoundRobin,
        Strategy::LeastConnections,
        Strategy::Sewt,
    ] {
        let mut plan = plan(strategy, &[20.0; 5], 16);
        plan.workers[4].joins_ms = 5_000.0;
        let run = run(&plan);
        assert_eq!(run.shares(0..5_000_000)[4], 0.0);
        near(run.shares(5_000_000..6_000_000)[4], 20.0, 2.0);
    }
}

#[test]
fn restarts_keep_apart_while_they_are_fast() {
    let output = printed("--scenario sawtooth --strategies lifetime_first --json");
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    let row = |table: usize| &report["tables"][table]["rows"][0];
    assert_eq!(row(0)["at_limit_at_once"], 1);
    assert!(row(0)["recycles"].as_i64().unwrap() > 10);
    assert_eq!(row(2)["at_limit_at_once"], 4);
}

/// Shares by period, of workers of 10, 5, 30 and 3 ms.
fn karma(queueing: Queueing, periods: u32) -> Vec<Vec<f64>> {
    const PERIOD_S: u32 = 6;
    let mut plan = plan(Strategy::Nodeads, &[10.0, 5.0, 30.0, 3.0], 0);
    plan.policy.karma.period_ms = u64::from(PERIOD_S) * 1000;
    plan.arrivals = Arrivals::Poisson { per_s: 200.0 };
    plan.queueing = queueing;
    plan.seconds = f64::from(PERIOD_S * periods);
    let run = run(&plan);
    let period_us = u64::from(PERIOD_S) * 1_000_000;
    let during = |period| period * period_us..(period + 1) * period_us;
    let periods = u64::from(periods);
    (0..periods)
        .map(|period| run.shares(during(period)))
        .collect()
}

#[test]
fn karma_starts_as_the_source_calculates_and_ends_with_one_winner() {
    let shares = karma(Queueing::Delay, 11);
    for (share, expected) in shares[1].iter().zip([15.0, 30.0, 5.0, 50.0]) {
        near(*share, expected, 5.0);
    }
    for (share, expected) in shares[10].iter().zip([2.5, 2.5, 2.5, 92.5]) {
        near(*share, expected, 3.0);
    }
}

#[test]
fn karma_leaves_a_second_worker_its_part_where_load_costs_time() {
    let shares = karma(Queueing::Shared, 11);
    assert!(shares[10][1] > 8.0, "{:?}", shares[10]);
}

#[test]
fn own_figures_are_printed_for_each_strategy_that_was_named() {
    let output = printed("--workers 5,10,50,100 --seconds 5 --strategies roundrobin,sewt");
    let rows: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    assert_eq!(rows.len(), 3, "{output}");
    assert!(rows[1].starts_with("| round_robin | "), "{output}");
    assert!(rows[1].contains("41.2"), "{output}");
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_remedy() {
    for (arguments, remedy) in [
        ("--workers 5,x", "--workers"),
        ("--workers 5 --strategies fastest", "least_connections"),
        ("--workers 5 --spread normal", "uniform"),
        ("--clients 5", "--workers"),
        ("--scenario sawtooth --rate 5", "--rate"),
    ] {
        let words = ["simulate"].into_iter().chain(arguments.split(' '));
        let message = Line::try_parse_from(words).err().unwrap().to_string();
        assert!(message.contains(remedy), "{arguments}: {message}");
    }
    for (arguments, remedy) in [
        ("--scenario nowhere", "--list"),
        ("--workers 5 --strategies lifetime_first", "--max-lifetime"),
        ("--workers 0.01 --clients 1000", "--seconds"),
    ] {
        let words = ["simulate"].into_iter().chain(arguments.split(' '));
        let options = Line::try_parse_from(words).unwrap().options;
        let message = simulate(&options).unwrap_err().to_string();
        assert!(message.contains(remedy), "{arguments}: {message}");
    }
}

#[test]
fn several_charts_add_their_names_to_the_file() {
    let path = Path::new("plots/sawtooth.svg");
    assert_eq!(chart_path(path, ""), path);
    assert_eq!(
        chart_path(path, "fast"),
        Path::new("plots/sawtooth-fast.svg")
    );
}
