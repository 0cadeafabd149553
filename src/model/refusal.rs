//! Why the domain refuses a command. Knows nothing of HTTP.

use super::{checkpoint::CheckpointState, phase::RunStatus};
use crate::base::{AttemptId, Invalid, RunId};

/// A command that the rules do not allow. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No run has this id.
    #[error("there is no run {0}")]
    RunNotFound(RunId),
    /// The run has no such attempt.
    #[error("run {run} has no attempt {attempt}")]
    AttemptNotFound {
        /// The run.
        run: RunId,
        /// The attempt asked for, id or ordinal.
        attempt: String,
    },
    /// The run has no such checkpoint.
    #[error("run {run} has no checkpoint {number}")]
    CheckpointNotFound {
        /// The run.
        run: RunId,
        /// The number asked for.
        number: u64,
    },
    /// The checkpoint is not there any more.
    #[error("checkpoint {number} is {state}: there is nothing to keep")]
    CheckpointGone {
        /// Its number.
        number: u64,
        /// What became of it.
        state: CheckpointState,
    },
    /// The id is taken by a live run of another controller, or of another body.
    #[error("run {0} exists and its controller is alive")]
    RunExists(RunId),
    /// The run has ended.
    #[error("the run has ended as {0}")]
    RunEnded(RunStatus),
    /// The run is to be resumed and has finished.
    #[error("the run has finished: there is nothing to resume")]
    NothingToResume,
    /// The token is of an earlier epoch of the run.
    #[error("another controller took this run over (epoch {epoch})")]
    StaleController {
        /// The epoch in force.
        epoch: u32,
    },
    /// The token is not this run's.
    #[error("the token does not belong to this run")]
    WrongToken,
    /// The state machine has no such transition.
    #[error("no transition from {from} to {to}")]
    IllegalTransition {
        /// The state it is in.
        from: &'static str,
        /// The state asked for.
        to: &'static str,
    },
    /// Another attempt of the run is live.
    #[error("attempt {0} is still live")]
    AttemptLive(AttemptId),
    /// The run lives, and what was asked is for ended ones.
    #[error("run {0} is live")]
    RunLive(RunId),
    /// What the attempt needs is not free right now.
    #[error("{0}")]
    NoResources(String),
    /// Bytes of a log are missing before those that were sent.
    #[error("the log has {size} bytes here, and these begin at {offset}")]
    LogGap {
        /// Size of the log.
        size: u64,
        /// Where the bytes begin.
        offset: u64,
    },
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
