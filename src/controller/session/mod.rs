//! The session: the worker's side of the conversation with its controller. One implementation, used through the unix
//! socket by programs and directly by closures.

mod shapes;
mod standing;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

pub use shapes::{Context, ReportAnswer, SessionError, SessionInfo, WorkerReport};
pub use standing::Notice;
use standing::Standing;
pub use worker::WorkerSession;

use super::{
    callbacks::{ReportHook, Reported},
    checkpoints::{Desk, Usable},
    last_report::LastReport,
    policy::Why,
};
use crate::{
    base::{Clock, Timestamp, number},
    model::{
        commands::check_time,
        metrics::{check_step, flatten},
    },
};

/// Points that may wait for the outbox, which takes them as they come; beyond that the newest are dropped and counted.
/// 24 bytes each and their keys.
const WAITING_POINTS: usize = 500_000;

/// The conversation between a run's workers and its controller.
#[derive(Debug)]
pub struct Session {
    info: SessionInfo,
    clock: Arc<dyn Clock>,
    attempt: AtomicU32,
    restart_count: AtomicU32,
    world_size: AtomicU32,
    stop: AtomicBool,
    standing: Mutex<Standing>,
    /// What rank 0 handed over at its end.
    returned: Mutex<Option<Value>>,
    /// Callbacks that hear of reports.
    reports: OnceLock<ReportHook>,
    /// A worker was told that its machine is going to be taken away.
    told: watch::Sender<Option<String>>,
    waiting: Mutex<Waiting>,
    /// Somebody put something in.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Reports by attempt and rank, in order.
    reports: HashMap<(u32, u32), Vec<Taken>>,
    points: usize,
    dropped: u64,
    report_index: HashMap<u32, u64>,
    last: LastReport,
}

/// A report that passed all checks.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) step: u64,
    pub(super) time: Timestamp,
    pub(super) metrics: Vec<(String, f64)>,
}

impl Session {
    pub(super) fn new(info: SessionInfo, _desk: Desk, clock: Arc<dyn Clock>) -> Self {
        let standing = Standing::begin(clock.monotonic());
        Self {
            info,
            clock,
            attempt: AtomicU32::new(0),
            restart_count: AtomicU32::new(0),
            world_size: AtomicU32::new(1),
            stop: AtomicBool::new(false),
            standing: Mutex::new(standing),
            returned: Mutex::default(),
            reports: OnceLock::new(),
            told: watch::channel(None).0,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// What a worker is told about itself.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn context(&self, rank: u32) -> Result<Context, SessionError> {
        self.check_rank(rank)?;
        Ok(Context {
            info: self.info.clone(),
            world_size: self.world_size(),
            rank,
            local_rank: rank,
            local_world_size: self.world_size(),
            node_rank: 0,
            attempt: self.attempt.load(Ordering::Acquire),
            restart_count: self.restart_count.load(Ordering::Acquire),
            trial: None,
            checkpoint: None,
            stop: self.stops(),
            preemption: self.notice(),
        })
    }

    /// A rank says that it acts on a notice by itself, so that it is given time before it is signalled.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn heeds_notices(&self, rank: u32) -> Result<(), SessionError> {
        self.check_rank(rank)?;
        self.standing.lock().heeds(rank);
        Ok(())
    }

    /// A worker was told that its machine is going to be taken away: what is decided then is decided for all ranks. Once
    /// the group is being stopped nobody listens: a worker that takes our stop signal for such a notice would turn every
    /// failure of its peers into a preemption.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn preempted(&self, rank: u32, reason: Option<&str>) -> Result<(), SessionError> {
        self.check_rank(rank)?;
        if self.stops() {
            return Ok(());
        }
        let why = reason.map(|r| format!(": {r}")).unwrap_or_default();
        self.told.send_replace(Some(format!("rank {rank} was given a preemption notice{why}")));
        Ok(())
    }

    /// Takes what a rank returns at its end; rank 0's is the run's.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn finish(&self, rank: u32, value: Value) -> Result<(), SessionError> {
        self.check_rank(rank)?;
        if rank == 0 {
            *self.returned.lock() = Some(value);
        }
        Ok(())
    }

    /// Takes one report.
    ///
    /// # Errors
    /// When a value cannot be stored: then nothing of the report is.
    pub fn report(&self, rank: u32, report: WorkerReport) -> Result<ReportAnswer, SessionError> {
        self.check_rank(rank)?;
        let report_index = self.take(rank, report)?;
        self.arrived.notify_one();
        Ok(ReportAnswer { stop: self.stops(), preemption: self.notice(), report_index })
    }

    /// Takes many points of any rank, without waiting for anything.
    ///
    /// # Errors
    /// When a value cannot be stored: then the points from that one on are not.
    pub fn log(&self, rank: u32, points: Vec<WorkerReport>) -> Result<bool, SessionError> {
        self.check_rank(rank)?;
        for (i, point) in points.into_iter().enumerate() {
            self.take(rank, point).map_err(|e| match e {
                SessionError::Invalid(invalid) => {
                    SessionError::Invalid(invalid.within(&format!("points[{i}]")))
                }
                other @ SessionError::NoSuchRank { .. } => other,
            })?;
        }
        self.arrived.notify_one();
        Ok(self.stops())
    }

    /// Whether the run is to stop.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// A new attempt begins.
    pub(super) fn begin_attempt(
        &self,
        attempt: u32,
        restart_count: u32,
        world_size: u32,
        _from: Option<Usable>,
    ) {
        self.attempt.store(attempt, Ordering::Release);
        self.restart_count.store(restart_count, Ordering::Release);
        self.world_size.store(world_size, Ordering::Release);
        *self.standing.lock() = Standing::begin(self.clock.monotonic());
        self.returned.lock().take();
        self.stop.store(false, Ordering::Release);
    }

    pub(super) fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Tells all ranks that their group is ended within `limit`.
    pub(super) fn give_notice(&self, reason: Why, limit: Duration) {
        let mut standing = self.standing.lock();
        let (deadline_ms, checkpoint_at_step) = (self.clock.now().plus(limit), standing.next_step());
        standing.notice = Some(Notice { reason, deadline_ms, checkpoint_at_step });
    }

    fn notice(&self) -> Option<Notice> {
        self.standing.lock().notice
    }

    /// Whether all of these ranks act on a notice by themselves.
    pub(super) fn all_heed(&self, ranks: &[u32]) -> bool {
        self.standing.lock().all_heed(ranks)
    }

    /// How long each of these ranks has not been heard of.
    pub(super) fn silence(&self, ranks: &[u32]) -> BTreeMap<u32, Duration> {
        self.standing.lock().silence(ranks, self.clock.monotonic())
    }

    /// Whether no rank has made a step for much longer than a step takes.
    pub(super) fn is_stalled(&self) -> bool {
        self.standing.lock().is_stalled(self.clock.now())
    }

    /// What rank 0 of the newest attempt returned.
    pub(super) fn returned(&self) -> Option<Value> {
        self.returned.lock().clone()
    }

    /// Lets callbacks hear of reports from now on.
    pub(super) fn tell_of_reports(&self, hook: ReportHook) {
        // There is one controller, which says this once.
        let _ = self.reports.set(hook);
    }

    /// What workers were told of a preemption.
    pub(super) fn told(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    fn world_size(&self) -> u32 {
        self.world_size.load(Ordering::Acquire)
    }

    /// Waits until there may be reports to take.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// How many points wait.
    pub(super) fn waiting_points(&self) -> usize {
        self.waiting.lock().points
    }

    /// Takes everything that waits: by attempt and rank.
    pub(super) fn take_reports(&self) -> Vec<((u32, u32), Vec<Taken>)> {
        let mut waiting = self.waiting.lock();
        waiting.points = 0;
        let mut all: Vec<_> = waiting.reports.drain().collect();
        all.sort_by_key(|(whose, _)| *whose);
        all
    }

    /// What the progress display shows, and how many points were dropped.
    pub(super) fn last_report(&self) -> (LastReport, u64) {
        let waiting = self.waiting.lock();
        (waiting.last.clone(), waiting.dropped)
    }

    fn take(&self, rank: u32, report: WorkerReport) -> Result<u64, SessionError> {
        let now = self.clock.now();
        let time = report.time_ms.unwrap_or(now);
        check_time("time_ms", time, now)?;
        report.step.map_or(Ok(0), check_step)?;
        let metrics = flatten(report.metrics)?;
        let attempt = self.attempt.load(Ordering::Acquire);
        let mut waiting = self.waiting.lock();
        let counter = waiting.report_index.entry(rank).or_default();
        let index = *counter;
        *counter += 1;
        let step = report.step.unwrap_or(index);
        self.standing.lock().heard(rank, step, self.clock.monotonic(), now);
        if rank == 0 {
            waiting.last.note(step, now, &metrics);
        }
        if let Some(hook) = self.reports.get() {
            hook.call(Reported { attempt, rank, step, metrics: metrics.clone() });
        }
        if metrics.is_empty() {
            return Ok(index);
        }
        if waiting.points + metrics.len() > WAITING_POINTS {
            waiting.dropped += number::size(metrics.len());
            return Ok(index);
        }
        waiting.points += metrics.len();
        waiting.reports.entry((attempt, rank)).or_default().push(Taken { step, time, metrics });
        Ok(index)
    }

    fn check_rank(&self, rank: u32) -> Result<(), SessionError> {
        let world_size = self.world_size();
        if rank < world_size { Ok(()) } else { Err(SessionError::NoSuchRank { rank, world_size }) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::base::{ManualClock, RunId};

    fn session() -> Session {
        let info = SessionInfo {
            run_id: RunId::generate(),
            run_name: "r".into(),
            experiment: None,
            storage_path: "/".into(),
            grace_period_ms: 0,
            config: Map::new(),
        };
        let session = Session::new(info, Arc::new(ManualClock::at(Timestamp::from_ms(1_800_000_000_000))));
        session.begin_attempt(0, 0, 2);
        session
    }

    fn report(json: Value) -> WorkerReport {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_report_without_a_step_gets_the_run_s_report_index_over_all_attempts() {
        let session = session();
        for _ in 0..3 {
            session.report(0, report(serde_json::json!({"metrics": {"a": 1}}))).unwrap();
        }
        session.begin_attempt(1, 1, 2);
        let answer = session.report(0, report(serde_json::json!({"metrics": {"a": 1}}))).unwrap();
        assert_eq!(answer, ReportAnswer { stop: false, preemption: None, report_index: 3 });
        let steps = |taken: &[Taken]| taken.iter().map(|t| t.step).collect::<Vec<_>>();
        let all = session.take_reports();
        assert_eq!(
            all.iter().map(|(w, t)| (*w, steps(t))).collect::<Vec<_>>(),
            [((0, 0), vec![0, 1, 2]), ((1, 0), vec![3])]
        );
        assert!(session.take_reports().is_empty());
    }

    #[test]
    fn a_bad_value_is_refused_by_name_and_a_stop_is_told() {
        let session = session();
        let bad =
            session.report(1, report(serde_json::json!({"metrics": {"a": 1, "b": {"c": "x"}}}))).unwrap_err();
        assert!(matches!(bad, SessionError::Invalid(e) if e.field == "metrics.b/c"));
        assert!(session.take_reports().is_empty());
        assert!(session.report(2, report(serde_json::json!({"metrics": {}}))).is_err());
        session.request_stop();
        assert!(session.report(1, report(serde_json::json!({"metrics": {"a": "NaN"}}))).unwrap().stop);
    }
}
