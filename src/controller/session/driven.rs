//! A session whose results somebody asks for, one by one: the waiting around [`super::exchange`], and what each result
//! carries without its function's doing.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use super::exchange::{Admission, Exchange, Next, Reporting, Starts, Ticket};
use crate::{
    base::{Clock, Timestamp},
    model::metrics::MetricValue,
};

/// One result of a trial's function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialResult {
    /// The trial.
    pub trial: String,
    /// Its step, or which report it is.
    pub step: u64,
    /// What was reported.
    pub metrics: BTreeMap<String, MetricValue>,
    /// Whether a checkpoint came with it.
    pub has_checkpoint: bool,
    /// When it was made.
    pub time_ms: Timestamp,
    /// Which result of the trial this is, from 1.
    pub training_iteration: u64,
    /// How long the function worked for it: without the time for which it stood still.
    pub time_since_last_s: f64,
    /// The same of all results up to this one.
    pub time_total_s: f64,
    /// Who reported it.
    #[serde(flatten)]
    pub by: Reporter,
}

/// Who reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reporter {
    /// World rank.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Its process there.
    pub pid: Option<u32>,
}

/// Why a trial's function has no more results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// It raised this.
    #[error("{message}")]
    Raised {
        /// The exception.
        message: String,
        /// Where it came from, if that is known.
        traceback: Option<String>,
    },
    /// Its worker ended under it.
    #[error("{0}")]
    Died(String),
    /// Its worker could not be started.
    #[error("{0}")]
    NotStarted(String),
}

/// What a result is made of.
pub(super) struct Reported {
    pub(super) step: u64,
    pub(super) time: Timestamp,
    pub(super) metrics: Vec<(String, f64)>,
    pub(super) has_checkpoint: bool,
}

/// Whether somebody keeps the points of a session beside its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Recorded {
    Yes,
    No,
}

/// What is fixed of a trial.
#[derive(Clone, Debug)]
pub(in crate::controller) struct Drive {
    /// Which trial of its worker this is, from 1.
    pub(in crate::controller) number: u64,
    pub(in crate::controller) trial: String,
    pub(in crate::controller) reporting: Reporting,
    pub(in crate::controller) recorded: Recorded,
}

/// The results of one function, asked for one by one.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) drive: Drive,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    /// There may be something new for the driver.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    exchange: Exchange<TrialResult, TrialError>,
    reporters: HashMap<Ticket, oneshot::Sender<()>>,
    by: Reporter,
    iterations: u64,
    worked: Duration,
    /// When the function was last let go on, on the monotonic clock.
    since: Duration,
}

impl Inner {
    /// Lets those go on who may.
    fn release(&mut self, now: Duration) {
        for ticket in self.exchange.released() {
            self.since = now;
            if let Some(reporter) = self.reporters.remove(&ticket) {
                // It may have left.
                let _ = reporter.send(());
            }
        }
    }
}

impl Driven {
    pub(super) fn new(drive: Drive, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            exchange: Exchange::new(drive.reporting),
            reporters: HashMap::new(),
            by: Reporter::default(),
            iterations: 0,
            worked: Duration::ZERO,
            since: clock.monotonic(),
        };
        Self { drive, clock, inner: Mutex::new(inner), changed: Notify::new() }
    }

    pub(super) fn admission(&self) -> Admission {
        self.inner.lock().exchange.admission()
    }

    /// Hands a result over, and waits until its reporter may go on.
    pub(super) async fn hand_over(&self, reported: Reported) {
        let (leave, may_leave) = oneshot::channel();
        self.tell(|inner, now| {
            let Reported { step, time, metrics, has_checkpoint } = reported;
            let passed = now.saturating_sub(std::mem::replace(&mut inner.since, now));
            inner.iterations += 1;
            inner.worked += passed;
            let result = TrialResult {
                trial: self.drive.trial.clone(),
                step,
                metrics: metrics.into_iter().map(|(key, value)| (key, MetricValue(value))).collect(),
                has_checkpoint,
                time_ms: time,
                training_iteration: inner.iterations,
                time_since_last_s: passed.as_secs_f64(),
                time_total_s: inner.worked.as_secs_f64(),
                by: inner.by.clone(),
            };
            let ticket = inner.exchange.hand_over(result);
            inner.reporters.insert(ticket, leave);
        });
        // It goes with the session, which is no reason to stand any longer.
        let _ = may_leave.await;
    }

    /// The next result; none when the function has ended and every result was given. May be dropped and called again.
    pub(super) async fn next_result(&self) -> Result<Option<TrialResult>, TrialError> {
        loop {
            let next = self.act(|inner, now| {
                if inner.exchange.ask() == Starts::Now {
                    inner.since = now;
                }
                inner.exchange.next()
            });
            match next {
                Next::Result(result) => return Ok(Some(result)),
                Next::Over => return Ok(None),
                Next::Failed(error) => return Err(error),
                Next::NotYet => self.changed.notified().await,
            }
        }
    }

    /// Waits until the function has ended.
    pub(super) async fn ended(&self) {
        while !self.has_ended() {
            self.changed.notified().await;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inner.lock().exchange.has_ended()
    }

    pub(super) fn error(&self) -> Option<TrialError> {
        self.inner.lock().exchange.error().cloned()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().exchange.is_closed()
    }

    pub(super) fn stop(&self) {
        self.tell(|inner, _| inner.exchange.stop());
    }

    pub(super) fn pause_reporting(&self) {
        self.tell(|inner, _| inner.exchange.pause_reporting());
    }

    pub(super) fn end(&self, how: Result<(), TrialError>) {
        self.tell(|inner, _| inner.exchange.end(how));
    }

    /// From now on results are this worker's.
    pub(super) fn set_reporter(&self, by: Reporter) {
        self.inner.lock().by = by;
    }

    /// Does something, and lets those go on who may then.
    fn act<T>(&self, what: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let now = self.clock.monotonic();
        let mut inner = self.inner.lock();
        let done = what(&mut inner, now);
        inner.release(now);
        done
    }

    /// The same, and has a driver that waits look again.
    fn tell(&self, what: impl FnOnce(&mut Inner, Duration)) {
        self.act(what);
        self.changed.notify_one();
    }
}
