//! One run: load, faults, silence, judgement.

use crate::clients::{Clients, Tally};
use crate::fault::Fault;
use crate::report::Report;
use crate::seeded::Seeded;
use crate::timeline::{Event, Timeline};
use harness::wait::holds_within;
use harness::{Fleet, RunningFleet};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const WORKERS: usize = 4;
const MAX_CONCURRENT: u32 = 4;
/// A fleet that is not well by then is not counted on any more: the next fault comes.
const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// After the last session: longer than a holder is believed that is gone without a word.
const SETTLED: Duration = Duration::from_secs(30);

/// What was done, and how the fleet took it.
#[derive(Debug, Default)]
struct Course {
    faults: BTreeMap<String, u64>,
    events: Vec<Event>,
    max_recovery: Duration,
    max_recovery_of: String,
}

pub(crate) async fn run(seed: u64, lasting: Duration) -> Report {
    let mut seeded = Seeded::new(seed);
    let mut fleet = raise().await;
    let envoys: Vec<_> = fleet.envoys.iter().map(|envoy| envoy.client()).collect();
    let start = Instant::now();
    let clients = Clients::start(&envoys, &mut seeded);
    let course = harass(&mut fleet, &mut seeded, lasting).await;
    let tally = clients.stop().await;
    let settled = holds_within(SETTLED, async || fleet.is_exact(0).await).await;
    let mut report = judge(&fleet, &course, &tally, start);
    report.seed = seed;
    report.minutes = lasting.as_secs_f64() / 60.0;
    if let Ok(view) = fleet.api().view().await {
        report.leaked = view.active;
        report.repairs = view.repairs.clone();
        if !settled {
            eprintln!("the fleet did not settle within {SETTLED:?}: {view:#?}");
        }
    } else {
        // Who cannot say that nothing is left has not passed.
        report.leaked = u64::MAX;
    }
    report.drift = fleet.api().audit().await.unwrap_or(Value::Null);
    report
}

async fn raise() -> RunningFleet {
    Fleet::new()
        .as_shipped()
        .envoys(2)
        .spare()
        .workers(WORKERS)
        .max_concurrent(MAX_CONCURRENT)
        .redis_through_proxy()
        .sidecars_through_proxy()
        .filter(|filter| filter["admit"] = json!("everything"))
        .up()
        .await
}

async fn harass(fleet: &mut RunningFleet, seeded: &mut Seeded, lasting: Duration) -> Course {
    let mut course = Course::default();
    let start = Instant::now();
    while start.elapsed() < lasting {
        tokio::time::sleep(seeded.between_ms(1000, 5000)).await;
        let fault = Fault::draw(seeded);
        eprintln!("{:>8.3} {fault}", start.elapsed().as_secs_f64());
        *course.faults.entry(fault.kind.to_string()).or_default() += 1;
        course.note(format!("FAULT {fault}"));
        fault.happen(fleet).await;
        course.note(format!("ended {fault}"));
        course.recover(fleet, &fault).await;
    }
    course
}

impl Course {
    fn note(&mut self, what: String) {
        let at = Instant::now();
        self.events.push(Event { at, what });
    }

    async fn recover(&mut self, fleet: &RunningFleet, fault: &Fault) {
        let start = Instant::now();
        let well = holds_within(RECOVERY_MAX, async || is_well(fleet).await).await;
        let took = start.elapsed();
        self.note(format!("well again: {well}, after {took:?}"));
        if !well {
            eprintln!("not well within {RECOVERY_MAX:?} after {fault}");
        }
        if took > self.max_recovery {
            self.max_recovery = took;
            self.max_recovery_of = fault.to_string();
        }
    }
}

/// Every Envoy gives places or says that there is none, and the store waits for nobody.
async fn is_well(fleet: &RunningFleet) -> bool {
    for envoy in 0..fleet.envoys.len() {
        if !fleet.decides(envoy).await {
            return false;
        }
    }
    let view = fleet.api().view().await;
    view.is_ok_and(|view| !view.rebuilding && view.quarantined_holders == 0)
}

fn judge(fleet: &RunningFleet, course: &Course, tally: &Tally, start: Instant) -> Report {
    let history = harness::History::of(&fleet.workers, MAX_CONCURRENT as usize);
    let admissions = tally.admissions.lock();
    let timeline = Timeline {
        start,
        faults: &course.events,
        admissions: &admissions.unwrap_or_else(PoisonError::into_inner),
        workers: &fleet.workers,
    };
    for violation in &history.violations {
        eprintln!("{}\n", timeline.around(violation));
    }
    let reasons = tally.reasons.lock();
    Report {
        operations: tally.operations.load(Ordering::Relaxed),
        admitted: tally.admitted.load(Ordering::Relaxed),
        denied: tally.denied.load(Ordering::Relaxed),
        outages: tally.outages.load(Ordering::Relaxed),
        reasons: reasons.unwrap_or_else(PoisonError::into_inner).clone(),
        faults: course.faults.clone(),
        violations: history.violations.len(),
        max_recovery_ms: u64::try_from(course.max_recovery.as_millis()).unwrap_or(u64::MAX),
        max_recovery_of: course.max_recovery_of.clone(),
        overlaps: history.overlaps.len(),
        max_overlap_ms: history.longest_overlap().as_secs_f64() * 1000.0,
        ..Report::default()
    }
}
