//! The StateActor over a real database: what is in memory is what is on disk, whatever happens and whenever it stops.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

mod disk;
mod metrics;
mod sequences;
