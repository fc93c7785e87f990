//! The scripts against a real Redis, and the routes in front of them: one file per verb, one per
//! strategy. One program, because linking is slower than running.

mod admit;
mod ejection;
mod explain;
mod headers;
mod heartbeat;
mod http;
mod least_connections;
mod lifetime_first;
mod model;
mod nodeads;
mod noerrors;
mod operator;
mod policy;
mod race;
mod random;
mod register;
mod release;
mod round_robin;
mod score;
mod serve;
mod sewt;
mod support;
