//! Attempts: one life of one worker group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{closed_enum::closed_enum, ledger::Bundle, refusal::Refusal, worker::Worker};
use crate::base::{AttemptId, Invalid, Timestamp, limits};

closed_enum! {
    /// Where an attempt is.
    AttemptStatus {
        /// Its workers are being placed.
        Pending = "PENDING",
        /// Its workers run.
        Running = "RUNNING",
        /// All ranks ended well.
        Finished = "FINISHED",
        /// A rank failed, or the group could not be started.
        Errored = "ERRORED",
        /// It was ended before its work was done.
        Aborted = "ABORTED",
    }
}

impl AttemptStatus {
    /// Whether the attempt has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Errored | Self::Aborted)
    }

    /// The status after a change to `to`: the one function through which it changes.
    ///
    /// # Errors
    /// [`Refusal::IllegalTransition`] for a pair that the table does not have. A change to itself is none.
    pub fn to(self, to: Self) -> Result<Self, Refusal> {
        let legal = self == to
            || match (self, to) {
                (Self::Pending, Self::Running | Self::Errored | Self::Aborted) => true,
                (Self::Running, to) => to.is_terminal(),
                _ => false,
            };
        if legal { Ok(to) } else { Err(Refusal::IllegalTransition { from: self.as_str(), to: to.as_str() }) }
    }
}

closed_enum! {
    /// Why an attempt ended; a status alone does not tell the truth.
    EndReason {
        /// All ranks ended well.
        Completed = "completed",
        /// A rank failed.
        WorkerFailed = "worker_failed",
        /// The group could not be started.
        StartFailed = "start_failed",
        /// Ranks stopped reporting.
        Hung = "hung",
        /// The group is replaced by one of another size.
        Resized = "resized",
        /// The machine was taken away.
        Preempted = "preempted",
        /// A callback of the controller failed.
        CallbackFailed = "callback_failed",
        /// Somebody stopped the run.
        Stopped = "stopped",
        /// The controller is gone.
        ControllerLost = "controller_lost",
    }
}

impl EndReason {
    /// The failure budget that an attempt which ended so is charged to.
    #[must_use]
    pub const fn budget(self) -> Option<Budget> {
        match self {
            Self::WorkerFailed | Self::Hung => Some(Budget::Worker),
            Self::StartFailed | Self::CallbackFailed => Some(Budget::Controller),
            Self::Preempted => Some(Budget::Preemption),
            Self::Completed | Self::Resized | Self::Stopped | Self::ControllerLost => None,
        }
    }
}

/// The three failure budgets of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// `max_failures`.
    Worker,
    /// `controller_failure_limit`.
    Controller,
    /// `max_preemption_failures`.
    Preemption,
}

/// How the tree of an attempt ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopReport {
    /// The processes that were there when the end began, or appeared later, and are gone.
    #[schema(max_items = 10_000)]
    pub processes_ended: Vec<u32>,
    /// Whether any of them had to be killed.
    pub forced: bool,
    /// Processes that not even SIGKILL ended in time.
    #[schema(max_items = 10_000)]
    pub left: Vec<u32>,
}

impl StopReport {
    /// Checks that the report has its limits.
    ///
    /// # Errors
    /// When a list has more than 10,000 processes; `field` is the report's place in the request.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        for (name, pids) in [("processes_ended", &self.processes_ended), ("left", &self.left)] {
            if pids.len() > limits::STOP_REPORT_PIDS {
                return Err(Invalid::over(format!("{field}.{name}"), limits::STOP_REPORT_PIDS, "processes"));
            }
        }
        Ok(())
    }
}

/// One life of one worker group. Its size is fixed for its life.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Identity, chosen by the controller.
    pub id: AttemptId,
    /// 0, 1, 2 … within the run, without gaps.
    pub ordinal: u32,
    /// Where it is.
    pub status: AttemptStatus,
    /// Why it ended.
    pub end_reason: Option<EndReason>,
    /// One sentence about it.
    pub status_detail: Option<String>,
    /// When its placing began.
    pub start_time: Timestamp,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How many workers it has, or would have had.
    pub num_workers: u32,
    /// What is reserved for its workers, as long as it lives; empty if nothing was asked for.
    pub reservation: Vec<Bundle>,
    /// Where rank 0 listens for the others, if that was said.
    pub master_address: Option<String>,
    /// What became of its processes, if its controller owned them and said so.
    pub stop_report: Option<StopReport>,
    /// Its workers by world rank; empty until they are placed.
    pub workers: BTreeMap<u32, Worker>,
}
