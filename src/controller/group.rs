//! The worker group: what the controller needs of whatever holds its workers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{policy::Permanent, session::Session};
use crate::{
    base::RunId,
    model::{StopReport, verbs::NewWorker},
};

/// What a group is started with.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// The run.
    pub run: RunId,
    /// Ordinal of the attempt.
    pub attempt: u32,
    /// How many failed attempts came before, the same on every rank.
    pub restart_count: u32,
    /// How many restarts there may be; negative is unlimited.
    pub max_restarts: i64,
    /// Size of the group.
    pub num_workers: u32,
    /// Where its workers report.
    pub session: Arc<Session>,
}

/// What happens in a group.
#[derive(Clone, Debug)]
pub enum GroupEvent {
    /// All ranks run.
    Started(Vec<NewWorker>),
    /// It could not be started; nothing of it is left.
    StartFailed {
        /// What was wrong and what to do.
        message: String,
        /// Whether another try would fail in the same way.
        permanent: Permanent,
    },
    /// A rank ended.
    Exited(RankExit),
    /// Nothing of the group is left, but what the report says.
    Ended(StopReport),
    /// Whoever held the workers was lost, and they with it. What is left of them is cleared away by
    /// [`WorkerGroup::clear_away`].
    Lost,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankExit {
    /// World rank.
    pub rank: u32,
    /// Exit code, if it exited by itself.
    pub code: Option<i32>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// What went wrong, where the worker itself could say (a closure's error).
    pub message: Option<String>,
}

impl RankExit {
    /// Whether the rank ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0) && self.signal.is_none()
    }
}

/// Holds the workers of one attempt at a time.
#[async_trait]
pub trait WorkerGroup: Send {
    /// Begins to start a group. How it went is an event.
    async fn start(&mut self, spec: GroupSpec);
    /// The next thing that happens. Waits for ever if no group is there. Cancel-safe.
    async fn event(&mut self) -> GroupEvent;
    /// Clears away what a group leaves behind that ended, was lost or could not be started.
    async fn clear_away(&mut self) -> StopReport;
    /// Passes a signal to all ranks.
    async fn signal(&mut self, signal: i32);
    /// Ends the group: the stop signal, then the grace, then force.
    async fn shutdown(&mut self, signal: i32, grace: Duration);
    /// Ends the group by force, at once.
    async fn abort(&mut self);
}
