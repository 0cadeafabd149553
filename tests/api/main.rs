//! The whole router over a real database in a temporary directory, with a clock that is turned by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

mod harness;

mod boundaries;
mod checkpoints;
mod demands;
mod events;
mod join;
mod lifecycle;
mod listing;
mod liveness;
mod logs;
mod metrics;
mod metrics_formats;
mod metrics_modes;
mod metrics_wire;
mod nodes;
mod people;
mod ray;
mod ray_shape;
mod registration;
mod resume;
mod scale;
mod webhooks;
