//! The StateActor: the one task that owns the store and performs every write, and the handle by which everything else
//! talks to it. The update of a run is private to this module: outside there are only verbs.
//!
//! A verb becomes one [`command::Command`], is decided by a plain function over the records in memory (`apply`),
//! is committed with all that waited (`actor`), becomes events (`hub`) and an entry of the list (`index`), and is
//! answered.

mod actor;
mod apply;
mod backup;
mod blocking;
mod checkpoints;
mod client;
mod command;
mod counters;
pub mod data_dir;
mod doctor;
mod error;
mod files;
mod folding;
mod group;
mod handle;
mod http;
mod hub;
mod index;
mod list;
mod live;
mod logs;
mod metrics;
mod nodes;
pub mod processes;
mod publish;
mod query;
mod ray;
mod reconcile;
mod register;
mod report;
mod retention;
mod shared;
mod shown;
mod start;
mod unsealed;
mod webhooks;
mod working_set;

pub use crate::store::Depth;
pub use backup::{Backup, BackupError, BackupFiles, BackupStage, back_up};
pub use client::{ClientError, StateClient};
pub use counters::StateFigures;
pub use data_dir::DataDir;
pub use doctor::{StoreContents, StoreReport, examine};
pub use error::StateError;
pub use handle::{Ack, Readiness, StateHandle};
pub use http::{HeadReadiness, HttpState};
pub use hub::{Frame, Subscription};
pub use index::{Direction, Facet, ListQuery, PageToken, Shelf, Sort, SortKey};
pub use list::{Experiment, Include};
pub use metrics::Comparison;
pub use nodes::{NodeView, own_node};
pub use query::RunEvidence;
pub use ray::RecordPage;
pub use retention::Cleared;
pub use start::{StateOptions, StateTask, start};
pub use webhooks::{DeadLetter, Webhook, WebhookPlace};
