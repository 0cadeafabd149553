//! The words of the state machine: what happens to a run, what is done about it, how it ends.

use std::{collections::BTreeMap, time::Duration};

use super::{
    group::RankExit,
    policy::{Permanent, Why},
};
use crate::model::{
    ControllerState, FirstFailure, NumFailures, StopReport,
    ledger::{Bundle, Demand},
    verbs::{BeginAttempt, Begun, NewWorker, RunVerb},
};

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The controller begins.
    Begin,
    /// The head says what was reserved for the attempt that was asked for.
    Begun(Begun),
    /// It does not fit now.
    NoRoom(String),
    /// It will never fit, or the head refuses it otherwise.
    Refused(String),
    /// So many workers can be had.
    Fits(u32),
    /// That has been so for long enough.
    Settled,
    /// All ranks run.
    Started { workers: Vec<NewWorker>, master_address: Option<String> },
    /// The group could not be started.
    StartFailed { message: String, permanent: Permanent },
    /// A rank ended.
    Exited(RankExit),
    /// Nothing of the group is left.
    Ended(StopReport),
    /// Whoever held the workers was lost, and they with it.
    Lost(StopReport),
    /// The group that is being started goes on from a checkpoint; with a sentence about it.
    Resumes(String),
    /// What is to be said of checkpoints: for which ranks one waits, or nothing any more.
    Checkpoints(Option<String>),
    /// One has waited for too long.
    CheckpointTimedOut(String),
    /// The pause before another try is over.
    PauseOver,
    /// Time passes; with how long each rank has not reported.
    Tick(BTreeMap<u32, Duration>),
    /// Where the ranks that hang stand was written to their logs; with the end of the first one's.
    StacksWritten(Vec<String>),
    /// A callback failed.
    CallbackFailed(String),
    /// The machine is going to be taken away; with who says so.
    Preempt(String),
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
    /// Ask the head for an attempt with what it needs; the answer is `Begun`, `NoRoom` or `Refused`.
    Ask(BeginAttempt),
    /// Do not wait for that answer any more.
    Withdraw,
    /// Let the head know what the run would like to have, and hear how much of it there is.
    Demand(Option<Demand>),
    /// Let callbacks hear of a group before it is started, with what is reserved for it.
    Announce(u32, Vec<Bundle>),
    /// The state changed from one to another, with a sentence about it: for callbacks and the log.
    Entered(ControllerState, ControllerState, Option<String>),
    /// Something failed, or a size is going to change: for callbacks, before the state changes for it.
    Failed(Box<FirstFailure>),
    Resizing(u32, u32),
    /// Start a group for this attempt.
    Start {
        attempt: u32,
        restart_count: u32,
        num_workers: u32,
        reservation: Vec<Bundle>,
    },
    /// Tell the ranks why their group is going to be ended, and end it.
    Drain(Why),
    /// End the group, with this much grace if it is not the run's own.
    Shutdown {
        grace: Option<Duration>,
    },
    /// End the group by force.
    Abort,
    /// Have the ranks' stacks written to their logs, then come with `StacksWritten`.
    WriteStacks(Vec<(u32, u32)>),
    /// Come again with `PauseOver` after this long.
    Pause(Duration),
    /// Come again with `Settled` after this long, unless told so again.
    Settle(Duration),
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
        /// The exit code that it means for whoever started the run.
        exit_code: u8,
    },
}

/// Exit code of a run that somebody stopped: that of a program ended by Ctrl-C.
pub(crate) const STOPPED: u8 = 130;
/// Exit code of a run that was preempted and is to be queued again (`EX_TEMPFAIL` of sysexits.h).
pub(crate) const REQUEUE: u8 = 75;

/// What a run brings along from before its controller began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// How many attempts it has had.
    pub(crate) attempts: u32,
    /// What its failure budgets were charged with.
    pub(crate) failures: NumFailures,
}
