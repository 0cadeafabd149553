//! TrainHead: the HTTP service over the StateActor. Holds no business rules: a handler takes a request apart, makes one
//! call and answers.

mod assets;
mod checkpoints;
mod controllers;
mod docs;
mod extract;
mod figures;
pub(crate) mod formats;
mod guard;
mod health;
mod log_search;
mod logs;
mod metrics;
mod packed;
mod packing;
mod people;
mod places;
mod problem;
mod ray;
mod router;
mod runs;
mod series_params;
mod serve;
mod sse;
pub mod webhooks;

pub use assets::Assets;
pub use guard::AllowedHosts;
pub use router::{HeadOptions, openapi, router};
pub use serve::serve;
