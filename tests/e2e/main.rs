//! The real binary: real processes, real signals, real ports, on a temporary data directory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

mod harness;
mod procfs;
mod receiver;
#[path = "../small_memory/mod.rs"]
mod small_memory;

mod big_logs;
mod checkpoints;
mod crashes;
mod elastic;
mod failing;
mod faults;
mod grace;
mod leftovers;
mod main_job;
mod metric_crashes;
mod metrics_cli;
mod notes;
mod operating;
mod preemption;
mod resuming;
mod stopping;
mod sync;
mod torchrun;
mod webhooks;
