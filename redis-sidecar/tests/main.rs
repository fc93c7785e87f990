//! The scripts against a real Redis, and the routes in front of them: one file per verb, one per
//! strategy. One program, because linking is slower than running.

mod admit;
mod ejection;
mod headers;
mod heartbeat;
mod http;
mod least_connections;
mod lifetime_first;
mod model;
mod policy;
mod random;
mod register;
mod release;
mod round_robin;
mod serve;
mod sewt;
mod support;
