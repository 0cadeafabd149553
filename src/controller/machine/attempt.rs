//! The attempt whose group is there, and why it is coming to its end.

use std::collections::BTreeMap;

use crate::{
    base::{AttemptId, Timestamp},
    controller::{
        group::RankExit,
        process::parse_signal,
        words::{self, describe},
    },
    model::{AttemptStatus, EndReason, FirstFailure, NumFailures, attempt::Budget},
};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) ordinal: u32,
    /// How many workers it was begun with.
    pub(super) size: u32,
    pub(super) begun: Timestamp,
    /// Each rank, and whether it ended well if it has ended.
    pub(super) workers: BTreeMap<u32, Option<bool>>,
    pub(super) pids: BTreeMap<u32, u32>,
    /// Why it is ended, once something made it so.
    pub(super) cause: Option<Cause>,
    /// When the first rank ended well.
    pub(super) early_since: Option<Timestamp>,
    pub(super) early_said: bool,
}

/// Why an attempt is ended before its work is done.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// A rank failed or hangs, or somebody held the port that was chosen for rank 0.
    Failed { failure: Box<FirstFailure>, reason: EndReason, exit_code: u8 },
    /// A callback failed.
    Callback(String),
    /// The machine is taken away.
    Preempted(String),
    /// A group of this size follows.
    Resized(u32),
}

impl Attempt {
    pub(super) fn new(id: AttemptId, ordinal: u32, size: u32, begun: Timestamp) -> Self {
        Self {
            id,
            ordinal,
            size,
            begun,
            workers: BTreeMap::new(),
            pids: BTreeMap::new(),
            cause: None,
            early_since: None,
            early_said: false,
        }
    }

    /// Ranks that run.
    pub(super) fn alive(&self) -> Vec<u32> {
        self.workers.iter().filter(|(_, ended)| ended.is_none()).map(|(rank, _)| *rank).collect()
    }

    /// Ranks that ended well.
    pub(super) fn done(&self) -> Vec<u32> {
        self.workers.iter().filter(|(_, ended)| **ended == Some(true)).map(|(rank, _)| *rank).collect()
    }

    pub(super) fn failure_of(&self, exit: &RankExit, host: &str, now: Timestamp) -> Cause {
        let pid = self.pids.get(&exit.rank).copied();
        let signalled = exit.signal.as_deref().and_then(parse_signal).map(|n| 128 + n);
        let exit_code = signalled.or(exit.code).and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        let failure = FirstFailure {
            rank: Some(exit.rank),
            attempt: self.ordinal,
            pid,
            host: Some(host.to_owned()),
            exit_code: exit.code,
            signal: exit.signal.clone(),
            message: describe(exit, pid, host),
            log_tail: exit.log_tail.clone(),
            time_ms: now,
            consequences: Vec::new(),
        };
        let reason = if exit.port_taken { EndReason::StartFailed } else { EndReason::WorkerFailed };
        Cause::Failed { failure: Box::new(failure), reason, exit_code }
    }

    /// A failure that no rank's exit stands for.
    pub(super) fn failure(
        &self,
        rank: Option<u32>,
        reason: EndReason,
        message: String,
        host: &str,
        now: Timestamp,
    ) -> Cause {
        let failure = FirstFailure {
            rank,
            attempt: self.ordinal,
            pid: rank.and_then(|rank| self.pids.get(&rank).copied()),
            host: Some(host.to_owned()),
            exit_code: None,
            signal: None,
            message,
            log_tail: Vec::new(),
            time_ms: now,
            consequences: Vec::new(),
        };
        Cause::Failed { failure: Box::new(failure), reason, exit_code: 1 }
    }

    /// What is said when ranks ended well while others run on.
    pub(super) fn early_words(&self, since: Timestamp) -> String {
        format!(
            "{} finished early ({}) and {} {} on",
            words::ranks(&self.done()),
            since.time_of_day(),
            words::ranks(&self.alive()),
            if self.alive().len() == 1 { "runs" } else { "run" }
        )
    }
}

impl Cause {
    /// One sentence.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::Failed { failure, .. } => failure.message.clone(),
            Self::Callback(what) => format!("controller error: {what}"),
            Self::Preempted(detail) => detail.clone(),
            Self::Resized(to) => format!("going to {}", words::workers(*to)),
        }
    }

    /// How an attempt ends for it.
    pub(super) fn end(&self) -> (AttemptStatus, EndReason) {
        match self {
            Self::Failed { reason, .. } => (AttemptStatus::Errored, *reason),
            Self::Callback(_) => (AttemptStatus::Errored, EndReason::CallbackFailed),
            Self::Preempted(_) => (AttemptStatus::Aborted, EndReason::Preempted),
            Self::Resized(_) => (AttemptStatus::Aborted, EndReason::Resized),
        }
    }

    /// The counts after it has been charged to its budget.
    pub(super) fn charged(&self, mut counts: NumFailures) -> NumFailures {
        match self.end().1.budget() {
            Some(Budget::Worker) => counts.worker += 1,
            Some(Budget::Controller) => counts.controller += 1,
            Some(Budget::Preemption) => counts.preemption += 1,
            None => {}
        }
        counts
    }
}
