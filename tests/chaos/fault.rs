//! What is done to the fleet, one thing at a time.

use crate::seeded::Seeded;
use harness::RunningFleet;
use harness::fault_proxy::FaultProxy;
use harness::process::Process;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Envoy(Blow),
    Sidecar(Blow),
    Redis(Harm),
    RedisLink(Weather),
    SidecarLink(Weather),
    Worker(Loss),
}

/// To a process that is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    Killed,
    Terminated,
    Stopped,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    Stopped,
    Flushed,
    RestartedEmpty,
    ClientsKilled,
    ScriptsFlushed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Weather {
    Cut,
    Torn,
    Slow,
    BlackHole,
    Refused,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    /// Comes back as another incarnation.
    Died,
    /// Comes back as it was.
    Deaf,
}

const KINDS: [Kind; 23] = [
    Kind::Envoy(Blow::Killed),
    Kind::Envoy(Blow::Terminated),
    Kind::Envoy(Blow::Stopped),
    Kind::Sidecar(Blow::Killed),
    Kind::Sidecar(Blow::Terminated),
    Kind::Sidecar(Blow::Stopped),
    Kind::Redis(Harm::Stopped),
    Kind::Redis(Harm::Flushed),
    Kind::Redis(Harm::RestartedEmpty),
    Kind::Redis(Harm::ClientsKilled),
    Kind::Redis(Harm::ScriptsFlushed),
    Kind::RedisLink(Weather::Cut),
    Kind::RedisLink(Weather::Torn),
    Kind::RedisLink(Weather::Slow),
    Kind::RedisLink(Weather::BlackHole),
    Kind::RedisLink(Weather::Refused),
    Kind::SidecarLink(Weather::Cut),
    Kind::SidecarLink(Weather::Torn),
    Kind::SidecarLink(Weather::Slow),
    Kind::SidecarLink(Weather::BlackHole),
    Kind::SidecarLink(Weather::Refused),
    Kind::Worker(Loss::Died),
    Kind::Worker(Loss::Deaf),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // RedisLink(BlackHole) -> redis_link_black_hole
        for (place, letter) in format!("{self:?}").char_indices() {
            match letter {
                '(' | ')' => {}
                _ if letter.is_uppercase() && place > 0 => {
                    write!(f, "_{}", letter.to_ascii_lowercase())?;
                }
                _ => write!(f, "{}", letter.to_ascii_lowercase())?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Which Envoy, sidecar, link or worker.
    whom: usize,
    /// How long it lasts, where it lasts.
    lasting: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            whom,
            lasting,
        } = self;
        write!(f, "{kind}, number {whom}, for {} ms", lasting.as_millis())
    }
}

impl Fault {
    pub(crate) fn draw(seeded: &mut Seeded) -> Self {
        let kind = KINDS[seeded.below(KINDS.len())];
        let longest_ms = match kind {
            Kind::Envoy(Blow::Stopped) => 10_000,
            Kind::Redis(Harm::Stopped) | Kind::RedisLink(_) => 5000,
            Kind::Envoy(_)
            | Kind::Sidecar(_)
            | Kind::Redis(_)
            | Kind::SidecarLink(_)
            | Kind::Worker(_) => 3000,
        };
        Self {
            kind,
            whom: seeded.below(4),
            lasting: seeded.between_ms(100, longest_ms),
        }
    }

    /// Does it, lets it last, and undoes it; what remains is the fleet's own to heal.
    pub(crate) async fn happen(&self, fleet: &mut RunningFleet) {
        let turn = |count: usize| self.whom % count;
        match self.kind {
            Kind::Envoy(blow) => {
                let envoy = turn(fleet.envoys.len());
                self.strike(&fleet.envoys[envoy].process, blow).await;
                if blow != Blow::Stopped {
                    fleet.envoys[envoy].restart().await;
                }
            }
            Kind::Sidecar(blow) => {
                let sidecar = turn(fleet.sidecars.len());
                self.strike(&fleet.sidecars[sidecar].process, blow).await;
                if blow != Blow::Stopped {
                    fleet.sidecars[sidecar].restart().await;
                }
            }
            Kind::Redis(harm) => self.harm_redis(fleet, harm).await,
            Kind::RedisLink(weather) => {
                let link = &fleet.redis_links[turn(fleet.redis_links.len())];
                self.spoil(link, weather).await;
            }
            Kind::SidecarLink(weather) => {
                let link = &fleet.sidecar_links[turn(fleet.sidecar_links.len())];
                self.spoil(link, weather).await;
            }
            Kind::Worker(loss) => {
                let worker = turn(fleet.workers.len());
                self.lose(&mut fleet.workers[worker], loss).await;
            }
        }
    }

    async fn last(&self) {
        tokio::time::sleep(self.lasting).await;
    }

    async fn strike(&self, process: &Process, blow: Blow) {
        match blow {
            Blow::Killed => process.kill(),
            Blow::Terminated => process.terminate(),
            Blow::Stopped => process.freeze().await,
        }
        self.last().await;
        if blow == Blow::Stopped {
            process.thaw();
        }
    }

    async fn harm_redis(&self, fleet: &mut RunningFleet, harm: Harm) {
        let redis = &mut fleet.redis;
        match harm {
            Harm::Stopped => self.strike(&redis.process, Blow::Stopped).await,
            Harm::Flushed => drop(redis.told("FLUSHALL").await),
            Harm::ClientsKilled => drop(redis.told("CLIENT KILL TYPE normal").await),
            Harm::ScriptsFlushed => {
                redis.told("SCRIPT FLUSH").await;
                redis.told("FUNCTION FLUSH").await;
            }
            Harm::RestartedEmpty => {
                self.strike(&redis.process, Blow::Killed).await;
                redis.start_again().await;
            }
        }
    }

    async fn spoil(&self, link: &FaultProxy, weather: Weather) {
        match weather {
            Weather::Cut => link.cut().await,
            Weather::Torn => link.cut_after(10),
            Weather::Slow => link.delay(self.lasting / 20),
            Weather::BlackHole => link.black_hole(),
            Weather::Refused => link.refuse().await,
        }
        self.last().await;
        link.heal().await;
    }

    async fn lose(&self, worker: &mut harness::worker::Worker, loss: Loss) {
        worker.stop_serving().await;
        let back = match loss {
            Loss::Deaf => {
                self.last().await;
                worker.resume_serving().await
            }
            Loss::Died => {
                worker.die().await;
                self.last().await;
                worker.start_again().await
            }
        };
        if let Err(error) = back {
            panic!("{}: {error}", worker.id());
        }
    }
}
