//! What Berth decides, without the world it decides in.
//!
//! The words, one per idea:
//!
//! | word | meaning |
//! |---|---|
//! | worker | a backend process that holds sessions, known by its id and reached at `ip:port` |
//! | incarnation | one life of a worker, from its start to its restart |
//! | pool | the workers that share one policy |
//! | policy | a pool's strategy and limits |
//! | strategy | the rule that chooses a worker |
//! | rank | a worker's place in its pool's index |
//! | lease | the right to one place on one worker, held by one stream |
//! | holder | one filter VM's life: proxy id and a random epoch |
//! | admit, deny | the two answers to a request for a lease |
//! | release | gives a lease back |
//! | beat | a holder's regular message: what it asks for, holds and has ended |
//! | presence | a hanging call whose end tells that its holder is gone |
//! | line | a call that stays open, over which questions and answers go back and forth |
//! | active | leases a worker has now |
//! | lifetime | leases a worker has had since its incarnation began |
//! | ejection | a short exile of a worker that could not be reached |
//! | recycle | the request to a worker that reached its lifetime limit to restart |
//! | client | whom leases are counted for: who has the same client key |
//! | binding | an affinity key's worker |
//! | outage | the sidecar or its Redis cannot answer |
//!
//! Nothing here reads a clock, draws a random number or does IO: those are arguments. So the same
//! code runs in the filter (WebAssembly), in the sidecar, and under test.

#![forbid(unsafe_code)]

pub mod asks;
pub mod carried;
pub mod clock;
pub mod config;
pub mod holder;
pub mod id;
pub mod inspect;
pub mod inventory;
pub mod lifecycle;
pub mod line;
pub mod message;
pub mod model;
pub mod outcome;
pub mod policy;
pub mod reply;
