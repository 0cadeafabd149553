//! All SQL. One module a table; `Batch` is the only way to write, and the StateActor the only one who has a [`Writer`].
//! Decides nothing.

mod attempts;
pub(crate) mod backup;
mod batch;
mod checkpoints;
pub(crate) mod codec;
mod events;
mod examine;
mod fold;
mod json_row;
mod listed;
pub(crate) mod metrics;
mod nodes;
mod open;
mod progress;
mod purge;
mod records;
mod runs;
mod webhooks;

pub(crate) use batch::{Batch, Contact};
pub use examine::Depth;
pub(crate) use examine::{Examined, StoredRun, Writers};
pub(crate) use fold::Folder;
pub(crate) use listed::ListedRun;
pub(crate) use open::{Reader, StoreError, Writer, open};
pub(crate) use webhooks::{DeadLetterRow, WebhookRow};
