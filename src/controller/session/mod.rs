//! The session: the worker's side of the conversation with its controller. One implementation, used through the unix
//! socket by programs and directly by closures.

mod driven;
mod exchange;
mod reports;
mod shapes;
mod standing;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use driven::Driven;
pub(super) use driven::{Drive, Recorded};
pub use driven::{Reporter, TrialError, TrialResult};
pub use exchange::Reporting;
pub(super) use reports::Taken;
use reports::Waiting;
pub use shapes::{Context, ReportAnswer, SessionError, SessionInfo, WorkerReport};
pub use standing::Notice;
use standing::Standing;
pub use worker::WorkerSession;

use super::{
    callbacks::ReportHook,
    checkpoints::{Consistency, Desk, Listed, Usable},
    policy::Why,
};
use crate::base::Clock;

/// The conversation between a run's workers and its controller.
#[derive(Debug)]
pub struct Session {
    info: SessionInfo,
    desk: Desk,
    clock: Arc<dyn Clock>,
    attempt: AtomicU32,
    restart_count: AtomicU32,
    world_size: AtomicU32,
    stop: AtomicBool,
    /// What the attempt goes on from.
    from: Mutex<Option<Usable>>,
    standing: Mutex<Standing>,
    /// What rank 0 handed over at its end.
    returned: Mutex<Option<Value>>,
    /// Callbacks that hear of reports.
    reports: OnceLock<ReportHook>,
    /// A worker was told that its machine is going to be taken away.
    told: watch::Sender<Option<String>>,
    /// Whoever asks for the results, if somebody does: of the one function of a sweep's trial.
    driven: Option<Driven>,
    waiting: Mutex<Waiting>,
    /// Somebody put something in.
    arrived: Notify,
}

impl Session {
    pub(super) fn new(info: SessionInfo, desk: Desk, clock: Arc<dyn Clock>) -> Self {
        let standing = Standing::begin(clock.monotonic());
        Self {
            info,
            desk,
            clock,
            attempt: AtomicU32::new(0),
            restart_count: AtomicU32::new(0),
            world_size: AtomicU32::new(1),
            stop: AtomicBool::new(false),
            from: Mutex::default(),
            standing: Mutex::new(standing),
            returned: Mutex::default(),
            reports: OnceLock::new(),
            told: watch::channel(None).0,
            driven: None,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// A session of one trial, whose results a driver asks for.
    pub(super) fn of_trial(info: SessionInfo, desk: Desk, clock: Arc<dyn Clock>, drive: Drive) -> Self {
        let driven = Some(Driven::new(drive, Arc::clone(&clock)));
        Self { driven, ..Self::new(info, desk, clock) }
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
            trial: self.driven.as_ref().map(|driven| driven.drive.trial.clone()),
            reporting: self.driven.as_ref().map_or_else(Reporting::default, |driven| driven.drive.reporting),
            checkpoint: self.from.lock().clone(),
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

    /// The latest usable checkpoint as a directory on this node: of the run, or what it went on from. May take long.
    ///
    /// # Errors
    /// When there is no such rank, or the checkpoint cannot be fetched.
    pub async fn checkpoint(&self, rank: u32) -> Result<Option<Usable>, SessionError> {
        self.check_rank(rank)?;
        let latest = self.desk.fetch_latest().await.map_err(SessionError::Checkpoint)?;
        Ok(latest.or_else(|| self.from.lock().clone()))
    }

    /// All checkpoints of the run after the one with number `after`, when what `consistency` says holds or the limit has
    /// passed.
    ///
    /// # Errors
    /// When there is no such rank.
    pub async fn checkpoints(
        &self,
        rank: u32,
        consistency: Consistency,
        after: Option<u64>,
        limit: Option<Duration>,
    ) -> Result<Vec<Listed>, SessionError> {
        self.check_rank(rank)?;
        Ok(self.desk.list(consistency, after, limit).await)
    }

    /// Whether the run is to stop.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.driven.as_ref().is_some_and(Driven::is_closed)
    }

    pub(super) fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// A new attempt begins, from this checkpoint if there is one. Reports without a step then go on behind its step, so
    /// that they say what the ranks do; without a checkpoint they go on counting.
    pub(super) fn begin_attempt(
        &self,
        attempt: u32,
        restart_count: u32,
        world_size: u32,
        from: Option<Usable>,
    ) {
        self.waiting.lock().begin_attempt(from.as_ref().map(|from| from.step.saturating_add(1)));
        *self.from.lock() = from;
        self.attempt.store(attempt, Ordering::Release);
        self.restart_count.store(restart_count, Ordering::Release);
        self.world_size.store(world_size, Ordering::Release);
        *self.standing.lock() = Standing::begin(self.clock.monotonic());
        self.returned.lock().take();
        self.stop.store(false, Ordering::Release);
    }

    pub(super) fn request_stop(&self) {
        // First, as nothing is taken any more from one who was told to stop.
        if let Some(driven) = &self.driven {
            driven.stop();
        }
        self.stop.store(true, Ordering::Release);
    }

    /// The next result of the function; none when it has ended and every result was given, and only then its error. The
    /// first call starts it. May be dropped and called again.
    pub(super) async fn next_result(&self) -> Result<Option<TrialResult>, TrialError> {
        match &self.driven {
            Some(driven) => driven.next_result().await,
            None => Ok(None),
        }
    }

    /// Which of its worker's trials this is the session of.
    pub(super) fn trial_number(&self) -> Option<u64> {
        self.driven.as_ref().map(|driven| driven.drive.number)
    }

    /// Whether the function has ended.
    pub(super) fn has_function_ended(&self) -> bool {
        self.driven.as_ref().is_some_and(Driven::has_ended)
    }

    /// From now on reports are accepted and ignored.
    pub(super) fn pause_reporting(&self) {
        if let Some(driven) = &self.driven {
            driven.pause_reporting();
        }
    }

    /// The function has ended. Only the first end counts.
    pub(super) fn function_ended(&self, how: Result<(), TrialError>) {
        if let Some(driven) = &self.driven {
            driven.end(how);
        }
    }

    /// What the function raised, if it has ended with an error.
    pub(super) fn function_error(&self) -> Option<TrialError> {
        self.driven.as_ref().and_then(Driven::error)
    }

    /// Waits until the function has ended.
    pub(super) async fn until_function_ended(&self) {
        if let Some(driven) = &self.driven {
            driven.ended().await;
        }
    }

    /// Who reports from now on.
    pub(super) fn set_reporter(&self, by: Reporter) {
        if let Some(driven) = &self.driven {
            driven.set_reporter(by);
        }
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

    /// Whether this attempt is the newest.
    fn is_in(&self, attempt: u32) -> bool {
        self.attempt.load(Ordering::Acquire) == attempt
    }

    fn world_size(&self) -> u32 {
        self.world_size.load(Ordering::Acquire)
    }

    fn check_rank(&self, rank: u32) -> Result<(), SessionError> {
        let world_size = self.world_size();
        if rank < world_size { Ok(()) } else { Err(SessionError::NoSuchRank { rank, world_size }) }
    }
}

#[cfg(test)]
mod tests;
