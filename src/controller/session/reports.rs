//! Reports: what is checked, taken and counted of them, what waits for the outbox, and what a reporter waits for.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use futures_util::{FutureExt, future::BoxFuture, future::Shared};

use super::{
    ReportAnswer, Session, SessionError, WorkerReport, driven, driven::Recorded, exchange::Admission,
};
use crate::{
    base::{Invalid, Timestamp, number},
    controller::{
        callbacks::Reported,
        checkpoints::{HandedShard, Shard},
        last_report::LastReport,
    },
    model::{
        commands::check_time,
        metrics::{check_step, flatten},
    },
};

/// Points that may wait for the outbox, which takes them as they come; beyond that the newest are dropped and counted.
/// 24 bytes each and their keys.
const WAITING_POINTS: usize = 500_000;

/// A report that passed all checks.
#[derive(Clone, Debug)]
pub(in crate::controller) struct Taken {
    pub(in crate::controller) step: u64,
    pub(in crate::controller) time: Timestamp,
    pub(in crate::controller) metrics: Vec<(String, f64)>,
}

/// A report all of whose values can be stored.
struct Checked {
    step: Option<u64>,
    now: Timestamp,
    time: Timestamp,
    metrics: Vec<(String, f64)>,
}

/// What waits for the outbox, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Reports by attempt and rank, in order.
    reports: HashMap<(u32, u32), Vec<Taken>>,
    points: usize,
    dropped: u64,
    /// The index of each rank's next report, where it is not `first_index`.
    report_index: HashMap<u32, u64>,
    first_index: u64,
    /// The last numbered report of each rank.
    last_given: HashMap<u32, (u64, Given)>,
    last: LastReport,
}

impl Waiting {
    /// A new attempt begins, and its reports with this index if it goes on from a checkpoint.
    pub(super) fn begin_attempt(&mut self, first_index: Option<u64>) {
        self.last_given.clear();
        if let Some(first) = first_index {
            self.report_index.clear();
            self.first_index = first;
        }
    }

    /// The index of a rank's next report.
    fn next_index(&self, rank: u32) -> u64 {
        self.report_index.get(&rank).copied().unwrap_or(self.first_index)
    }
}

/// A report that was taken. It is answered when [`Given::settled`] has returned.
#[derive(Clone, Debug)]
pub(in crate::controller) struct Given {
    report_index: u64,
    waits: Option<Shared<BoxFuture<'static, Result<(), SessionError>>>>,
}

impl Given {
    /// Whether there is something to wait for. It goes on only while somebody waits.
    pub(in crate::controller) fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// Waits until its reporter may go on.
    pub(in crate::controller) async fn settled(self) -> Result<(), SessionError> {
        match self.waits {
            Some(waits) => waits.await,
            None => Ok(()),
        }
    }
}

impl Session {
    /// Takes one report. Nobody waits here: not for the bytes of a shard, nor for leave to go on.
    pub(in crate::controller) fn give(
        self: &Arc<Self>,
        rank: u32,
        report: WorkerReport,
    ) -> Result<Given, SessionError> {
        self.check_rank(rank)?;
        let Some(seq) = report.seq else { return self.give_new(rank, report) };
        if let Some((last, given)) = self.waiting.lock().last_given.get(&rank)
            && *last == seq
        {
            return Ok(given.clone());
        }
        let given = self.give_new(rank, report)?;
        self.waiting.lock().last_given.insert(rank, (seq, given.clone()));
        Ok(given)
    }

    /// What a reporter is told when it may go on.
    pub(in crate::controller) fn answer(&self, given: &Given) -> ReportAnswer {
        ReportAnswer {
            stop: self.stops(),
            report_index: given.report_index,
            preemption: self.notice(),
            checkpoint: self.desk.newest(),
        }
    }

    /// Takes one report and waits until its reporter may go on.
    ///
    /// # Errors
    /// When a value cannot be stored: then nothing of the report is. When its shard cannot be moved: then its metrics
    /// are taken all the same.
    pub async fn report(
        self: &Arc<Self>,
        rank: u32,
        report: WorkerReport,
    ) -> Result<ReportAnswer, SessionError> {
        let given = self.give(rank, report)?;
        given.clone().settled().await?;
        Ok(self.answer(&given))
    }

    /// Takes many points of any rank, without waiting for anything.
    ///
    /// # Errors
    /// When a value cannot be stored: then the points from that one on are not.
    pub fn log(&self, rank: u32, points: Vec<WorkerReport>) -> Result<bool, SessionError> {
        self.check_rank(rank)?;
        for (i, point) in points.into_iter().enumerate() {
            let within = |e| match e {
                SessionError::Invalid(invalid) => {
                    SessionError::Invalid(invalid.within(&format!("points[{i}]")))
                }
                other @ (SessionError::NoSuchRank { .. } | SessionError::Checkpoint(_)) => other,
            };
            if point.checkpoint.is_some() {
                let wrong = Invalid::rule("checkpoint", "a checkpoint is handed over with a report");
                return Err(within(wrong.into()));
            }
            let checked = self.check(point).map_err(|e| within(e.into()))?;
            self.take(rank, checked);
        }
        self.arrived.notify_one();
        Ok(self.stops())
    }

    fn give_new(self: &Arc<Self>, rank: u32, mut report: WorkerReport) -> Result<Given, SessionError> {
        let handed = report.checkpoint.take();
        if let Some(handed) = &handed {
            check_shard(handed, rank, self.world_size())?;
        }
        if self.driven.as_ref().is_some_and(|driven| driven.admission() != Admission::Taken) {
            return Ok(Given { report_index: self.waiting.lock().next_index(rank), waits: None });
        }
        let attempt = self.attempt.load(Ordering::Acquire);
        let checked = self.check(report)?;
        let time = checked.time;
        let waits = handed.is_some() || self.driven.is_some();
        let metrics = if waits { checked.metrics.clone() } else { Vec::new() };
        let (report_index, step) = self.take(rank, checked);
        self.arrived.notify_one();
        if handed.is_none() {
            self.desk.passed(attempt, rank, step);
        }
        if !waits {
            return Ok(Given { report_index, waits: None });
        }
        let has_checkpoint = handed.is_some();
        let moved = handed.map(|handed| {
            let metrics = metrics.clone();
            self.desk.hand_in(Shard { attempt, rank, step, metrics, handed })
        });
        let session = Arc::clone(self);
        let settle = async move {
            if let Some(moved) = moved {
                let gone = |_| Err("the run ends, its checkpoint is not kept".to_owned());
                moved.await.unwrap_or_else(gone).map_err(SessionError::Checkpoint)?;
            }
            if let Some(driven) = &session.driven {
                driven.hand_over(driven::Reported { step, time, metrics, has_checkpoint }).await;
            }
            Ok(())
        };
        Ok(Given { report_index, waits: Some(settle.boxed().shared()) })
    }

    fn check(&self, report: WorkerReport) -> Result<Checked, Invalid> {
        let now = self.clock.now();
        let time = report.time_ms.unwrap_or(now);
        check_time("time_ms", time, now)?;
        report.step.map_or(Ok(0), check_step)?;
        Ok(Checked { step: report.step, now, time, metrics: flatten(report.metrics)? })
    }

    /// Keeps the values of a report for the outbox; its index and its step.
    fn take(&self, rank: u32, checked: Checked) -> (u64, u64) {
        let Checked { step, now, time, metrics } = checked;
        let attempt = self.attempt.load(Ordering::Acquire);
        let mut waiting = self.waiting.lock();
        let index = waiting.next_index(rank);
        waiting.report_index.insert(rank, index + 1);
        let step = step.unwrap_or(index);
        self.standing.lock().heard(rank, step, self.clock.monotonic(), now);
        if rank == 0 {
            waiting.last.note(step, now, &metrics);
        }
        if let Some(hook) = self.reports.get() {
            hook.call(Reported { attempt, rank, step, metrics: metrics.clone() });
        }
        if self.driven.as_ref().is_some_and(|driven| driven.drive.recorded == Recorded::No) {
            return (index, step);
        }
        if waiting.points + metrics.len() > WAITING_POINTS {
            waiting.dropped += number::size(metrics.len());
        } else if !metrics.is_empty() {
            waiting.points += metrics.len();
            waiting.reports.entry((attempt, rank)).or_default().push(Taken { step, time, metrics });
        }
        (index, step)
    }

    /// Waits until there may be reports to take.
    pub(in crate::controller) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// How many points wait.
    pub(in crate::controller) fn waiting_points(&self) -> usize {
        self.waiting.lock().points
    }

    /// Takes everything that waits: by attempt and rank.
    pub(in crate::controller) fn take_reports(&self) -> Vec<((u32, u32), Vec<Taken>)> {
        let mut waiting = self.waiting.lock();
        waiting.points = 0;
        let mut all: Vec<_> = waiting.reports.drain().collect();
        all.sort_by_key(|(whose, _)| *whose);
        all
    }

    /// What the progress display shows, and how many points were dropped.
    pub(in crate::controller) fn last_report(&self) -> (LastReport, u64) {
        let waiting = self.waiting.lock();
        (waiting.last.clone(), waiting.dropped)
    }
}

/// Whether a shard is there, and its checkpoint one that can be whole some time.
fn check_shard(handed: &HandedShard, rank: u32, world_size: u32) -> Result<(), Invalid> {
    let path: &Path = &handed.path;
    if !path.is_absolute() {
        let message = format!("{} is not an absolute path", path.display());
        return Err(Invalid::rule("checkpoint.path", message));
    }
    if !path.is_dir() {
        let message = format!("{} is not a directory on this machine", path.display());
        return Err(Invalid::rule("checkpoint.path", message));
    }
    let wrong = |message: String| Err(Invalid::rule("checkpoint.ranks", message));
    match &handed.ranks {
        Some(ranks) if !ranks.contains(&rank) => {
            wrong(format!("rank {rank} hands a part of a checkpoint over that it is not named for"))
        }
        Some(ranks) if ranks.iter().any(|r| *r >= world_size) => {
            let beyond: BTreeSet<_> = ranks.iter().filter(|r| **r >= world_size).collect();
            wrong(format!("the group has {world_size} ranks, there are no ranks {beyond:?}"))
        }
        _ => Ok(()),
    }
}
