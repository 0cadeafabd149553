//! The real binary: real processes, real signals, real ports, on a temporary data directory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

mod harness;
mod procfs;

mod big_logs;
mod crashes;
mod elastic;
mod faults;
mod leftovers;
mod main_job;
mod operating;
mod stopping;
mod webhooks;
