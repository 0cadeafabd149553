//! The worker group: what the controller needs of whatever holds its workers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{policy::Permanent, session::Session};
use crate::{
    base::RunId,
    model::{StopReport, ledger::Bundle, verbs::NewWorker},
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
    /// What is reserved for each rank; empty if nothing is.
    pub reservation: Vec<Bundle>,
    /// What a worker gets between the stop signal and SIGKILL, for it to know.
    pub grace: Duration,
    /// Where its workers report.
    pub session: Arc<Session>,
}

/// What happens in a group.
#[derive(Clone, Debug)]
pub enum GroupEvent {
    /// All ranks run.
    Started {
        /// One for each rank.
        workers: Vec<NewWorker>,
        /// Where rank 0 is to listen for the others, if the group chose that.
        master_address: Option<String>,
    },
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
    /// Whoever held the workers was lost, and they with it; nothing is left, but what the report says.
    Lost(StopReport),
}

/// How a rank ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankExit {
    /// World rank.
    pub rank: u32,
    /// Exit code, if it exited by itself.
    pub code: Option<i32>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// What went wrong, where the worker itself could say: a closure's error, torchrun's error file.
    pub message: Option<String>,
    /// Evidence that the kernel ended it for want of memory, as a sentence.
    pub out_of_memory: Option<String>,
    /// Its last log lines, if it failed and they were looked at.
    pub log_tail: Vec<String>,
    /// The port that was chosen for rank 0 had been taken by somebody else: another try gets another port.
    pub port_taken: bool,
}

impl RankExit {
    /// Whether the rank ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0) && self.signal.is_none()
    }
}

/// Holds the workers of one attempt at a time. Nothing here waits but [`WorkerGroup::event`], so that whoever drives a
/// group can always be spoken to.
#[async_trait]
pub trait WorkerGroup: Send {
    /// Begins to start a group. How it went is an event. To be called when there is none.
    fn start(&mut self, spec: GroupSpec);
    /// The next thing that happens. Waits for ever if no group is there. Cancel-safe.
    async fn event(&mut self) -> GroupEvent;
    /// Passes a signal to all ranks.
    fn signal(&mut self, signal: i32);
    /// Ends the group: the stop signal, then the grace, then force. May be called again to shorten the grace.
    fn shutdown(&mut self, signal: i32, grace: Duration);
    /// Ends the group by force, at once.
    fn abort(&mut self);
}
