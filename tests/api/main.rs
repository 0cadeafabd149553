//! The whole router over a real database in a temporary directory, with a clock that is turned by hand.

mod harness;

mod boundaries;
mod events;
mod lifecycle;
mod listing;
mod liveness;
mod metrics;
mod registration;
