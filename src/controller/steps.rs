//! The words of the state machine: what happens to a run, what is done about it, how it ends.

use std::time::Duration;

use super::{group::RankExit, policy::Permanent, words::Evidence};
use crate::model::{
    StopReport,
    verbs::{NewWorker, RunVerb},
};

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The controller begins.
    Begin,
    /// All ranks run.
    Started(Vec<NewWorker>),
    /// The group could not be started.
    StartFailed { message: String, permanent: Permanent },
    /// A rank ended; with what its log and error file say, if it is the first to fail.
    Exited(RankExit, Evidence),
    /// Nothing of the group is left.
    Ended(StopReport),
    /// Whoever held the workers was lost.
    Lost(StopReport),
    /// The pause before another try is over.
    PauseOver,
    /// Somebody wants the run to stop.
    Stop { detail: String, grace: Option<Duration> },
    /// Somebody wants it to stop now.
    Kill,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Say it to the head.
    Say(RunVerb),
    /// Start a group for this attempt.
    Start { attempt: u32, restart_count: u32 },
    /// End the group, with this much grace if it is not the run's own.
    Shutdown { grace: Option<Duration> },
    /// End the group by force.
    Abort,
    /// Come again with `PauseOver` after this long.
    Pause(Duration),
    /// The run has ended.
    Done(Outcome),
}

/// How a run ended, as its controller knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// All ranks of the last attempt ended well.
    Finished,
    /// An error, and no retry left.
    Errored {
        /// The error in one sentence.
        detail: String,
        /// The exit code that it means for whoever started the run.
        exit_code: u8,
    },
    /// Somebody stopped it.
    Aborted {
        /// Who and how.
        detail: String,
    },
}
