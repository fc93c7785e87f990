//! What can be done to a fleet, whether its parts are processes or containers.

use crate::fleet::Outlook;
use std::ops::Deref;

/// By their places in the fleet, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Envoy(usize),
    Sidecar(usize),
    Redis,
    Worker(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// From an Envoy to the sidecar that it asks first.
    ToSidecar(usize),
    /// From a sidecar to Redis.
    ToRedis(usize),
    /// From a worker to everyone.
    OfWorker(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Without a chance to say anything.
    Killed(Part),
    /// Asked to end, and ended.
    Ended(Part),
    /// Stands still; its connections stay open.
    Stopped(Part),
    /// Nothing gets through, and nobody is told.
    Cut(Link),
}

/// A fleet whose parts are within reach.
pub trait Raised: Deref<Target = Outlook> {
    fn harm(&mut self, fault: Fault) -> impl Future<Output = ()>;

    /// Takes the fault back: what ended is started, what stands goes on, links are joined.
    fn heal(&mut self, fault: Fault) -> impl Future<Output = ()>;

    /// How many sidecars this Envoy believes to be well.
    fn healthy_sidecars(&self, envoy: usize) -> impl Future<Output = u64>;
}
