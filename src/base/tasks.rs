//! Tracked tasks: every task is owned, told to stop, and waited for.

use std::{future::Future, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

/// Waits until then; for ever if there is no such moment. For a `select!` one of whose waits may be off.
pub async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A set of tasks with one way to stop them. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task that belongs to this set. It must end soon after [`Tasks::stopping`] resolves.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that spawns; everything else goes through it"
    )]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tracker.track_future(future))
    }

    /// The token that tells the tasks to stop.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks all tasks to stop without waiting.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Asks all tasks to stop and waits for them, at most `limit`; says every 5 s what it waits for.
    /// Returns whether all ended.
    pub async fn shutdown(&self, phase: &str, limit: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        let ended = tokio::time::timeout(limit, async {
            let mut reminder = tokio::time::interval(Duration::from_secs(5));
            reminder.tick().await;
            loop {
                tokio::select! {
                    () = self.tracker.wait() => break,
                    _ = reminder.tick() => info!("stopping {phase}: waiting for {} tasks", self.tracker.len()),
                }
            }
        })
        .await
        .is_ok();
        if !ended {
            warn!("stopping {phase}: {} tasks did not end within {limit:?}", self.tracker.len());
        }
        ended
    }
}
