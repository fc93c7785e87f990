//! The fault matrix, row by row, with real processes. Row 21, and what is timed, is in chaos.rs.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer that is not expected fails the test, whatever it is"
)]

mod faults {
    mod clients;
    mod cluster;
    mod exhaustion;
    mod hostile;
    mod judge;
    mod listener;
    mod local_share;
    mod messages;
    mod network;
    mod proxy;
    mod rebuild;
    mod redis;
    mod sentinel;
    mod sidecar;
    mod worker;
}
