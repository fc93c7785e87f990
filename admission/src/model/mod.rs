//! Brute-force models of the strategies.
