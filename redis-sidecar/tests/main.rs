//! The scripts against a real Redis, and the routes in front of them: one file per verb, one per
//! strategy. One program, because linking is slower than running.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer that is not expected fails the test, whatever it is"
)]

mod acl;
mod admit;
mod affinity;
mod atomic;
mod audit;
mod budget;
mod check;
mod choose;
mod crowd;
mod docs;
mod doors;
mod ejection;
mod explain;
mod fitness;
mod fuzz;
mod group;
mod headers;
mod heartbeat;
mod http;
mod leases;
mod least_connections;
mod lifetime_first;
mod limits;
mod line;
mod model;
mod mutants;
mod nodeads;
mod noerrors;
mod openapi;
mod operator;
mod policy;
mod presence;
mod race;
mod random;
mod rebuild;
mod reclaim;
mod register;
mod release;
mod renew;
mod rights;
mod round_robin;
mod score;
mod serve;
mod sewt;
mod shadow;
mod support;
mod tls;
