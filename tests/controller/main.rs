//! The controller with real processes and real threads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

mod agent;
mod agent_ends;
mod callbacks;
mod closures;
mod outage;
#[path = "../small_memory/mod.rs"]
mod small_memory;
mod stage;
mod trials;
mod validations;
