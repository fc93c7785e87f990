//! The store on every shape of Redis, with real processes and without Envoys: those are in faults.rs.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer that is not expected fails the test, whatever it is"
)]

mod topologies {
    mod cluster;
    mod desk;
    mod replicas;
    mod sentinel;
    mod tls;
}
