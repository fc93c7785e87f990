//! What can be done to a fleet of processes.

use super::RunningFleet;
use crate::fault::{Fault, Link, Part, Raised};
use crate::process::Process;
use crate::wait::eventually;

impl RunningFleet {
    /// Workers are no processes here, but tasks of the test.
    fn process(&self, part: Part) -> &Process {
        match part {
            Part::Envoy(number) => &self.envoys[number].process,
            Part::Sidecar(number) => &self.sidecars[number].process,
            Part::Redis => &self.redis.process,
            Part::Worker(number) => panic!("worker {number} can die here, and nothing else"),
        }
    }
}

impl Raised for RunningFleet {
    async fn harm(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(Part::Worker(number)) => self.workers[number].die().await,
            Fault::Killed(part) => self.process(part).kill(),
            Fault::Ended(part) => {
                let process = self.process(part);
                process.terminate();
                eventually("it ends", async || process.ended().is_some()).await;
            }
            Fault::Stopped(part) => self.process(part).freeze().await,
            Fault::Cut(Link::ToSidecar(number)) => self.sidecar_links[number].black_hole(),
            Fault::Cut(Link::ToRedis(number)) => self.redis_links[number].black_hole(),
            Fault::Cut(Link::OfWorker(number)) => panic!("worker {number} has no links here"),
        }
    }

    async fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(part) | Fault::Ended(part) => match part {
                Part::Envoy(number) => self.envoys[number].start_again().await,
                Part::Sidecar(number) => self.sidecars[number].restart().await,
                Part::Redis => self.redis.start_again().await,
                Part::Worker(number) => {
                    let started = self.workers[number].start_again().await;
                    started.expect("the worker's port is free");
                }
            },
            Fault::Stopped(part) => self.process(part).thaw(),
            Fault::Cut(Link::ToSidecar(number)) => self.sidecar_links[number].heal().await,
            Fault::Cut(Link::ToRedis(number)) => self.redis_links[number].heal().await,
            Fault::Cut(Link::OfWorker(number)) => panic!("worker {number} has no links here"),
        }
    }

    async fn healthy_sidecars(&self, envoy: usize) -> u64 {
        self.envoys[envoy]
            .stat("berth_sidecar.membership_healthy")
            .await
    }
}
