//! All SQL. One module a table; `Batch` is the only way to write, and the StateActor the only one who has a [`Writer`].
//! Decides nothing.

mod attempts;
mod batch;
mod events;
mod json_row;
pub(crate) mod metrics;
mod open;
mod progress;
mod runs;
mod webhooks;

pub(crate) use batch::{Batch, Contact};
pub(crate) use open::{Reader, StoreError, Writer, open};
pub(crate) use runs::ListedRun;
pub(crate) use webhooks::{DeadLetterRow, WebhookRow};
