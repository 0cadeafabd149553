//! When SQLite's log is folded into its database. Left to SQLite, a commit does it when the log has grown long, and all who
//! wait for that commit wait for it too (measured: 50 ms at 6 million points a second). So a task does nearly all of it beside
//! the StateActor, and the StateActor the little that came meanwhile: then the log begins anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    base::error::chain,
    store::{Folder, StoreError},
};

/// Pages in the log from which on it is folded: 62 MB. While that is done the disk is slower for commits too, and a page
/// that changes often is written once for all that.
const LONG: i64 = 15_000;
/// What a commit may wait for: some milliseconds.
const LITTLE: i64 = 400;
/// How often it is tried to get there, as the log grows meanwhile.
const TRIES: u32 = 3;
/// Between two looks at a log that grows.
const PAUSE: Duration = Duration::from_millis(50);

/// What the StateActor and the task that folds tell each other.
#[derive(Debug, Default)]
pub(super) struct FoldSignals {
    committed: Notify,
    nearly: AtomicBool,
}

impl FoldSignals {
    /// The log has grown.
    pub(super) fn committed(&self) {
        self.committed.notify_one();
    }

    /// Whether only a little is left to be folded, which is for the StateActor to do.
    pub(super) fn take_nearly(&self) -> bool {
        self.nearly.swap(false, Ordering::AcqRel)
    }
}

/// The task that folds, until it is told to stop.
pub(super) async fn run(mut folder: Folder, signals: Arc<FoldSignals>, stop: CancellationToken) {
    let mut failed = false;
    while stop.run_until_cancelled(signals.committed.notified()).await.is_some() {
        match look(&mut folder, &signals).await {
            Ok(()) => failed = false,
            // Commits find out for themselves whether the disk can be written; SQLite folds while they do.
            Err(e) if !failed => {
                warn!("the log of the database could not be folded: {}", chain(&e));
                failed = true;
            }
            Err(_) => {}
        }
        if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            break;
        }
    }
    if let Err(e) = folder.close().await {
        warn!("the connection that folds was not closed in order: {}", chain(&e));
    }
}

async fn look(folder: &mut Folder, signals: &FoldSignals) -> Result<(), StoreError> {
    if folder.waiting().await? < LONG {
        return Ok(());
    }
    for _ in 0..TRIES {
        if folder.fold().await? <= LITTLE {
            break;
        }
    }
    signals.nearly.store(true, Ordering::Release);
    Ok(())
}
