//! TrainHead starts, supervises, records and shows machine-learning training runs.
//!
//! The layers, ground floor first: [`base`] → [`model`] → `store` → [`state`] → [`controller`] and [`head`] → `cli`.
//! A layer uses only layers before it; `tests/tidy.rs` checks this. ARCHITECTURE.md is the map.

pub mod base;
pub mod cli;
pub mod controller;
pub mod head;
pub mod model;
pub mod state;
pub(crate) mod store;
