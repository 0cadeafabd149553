//! What the parts of the outbox share: the queue, what the head told, the run's token, and whether the head answers.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tracing::{info, warn};

use super::{
    item::batches,
    queue::{Limits, Queue},
};
use crate::{
    base::{ActorId, Secret},
    controller::session::Session,
    model::{NumFailures, ledger::Demand},
    state::ClientError,
};

/// No message waits longer for its answer. Clients have shorter limits of their own, but one may become the head itself
/// meanwhile, and that is not to be broken off.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// What the head tells its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct FromHead {
    /// The answer to the registration.
    pub(in crate::controller) registered: Option<Registered>,
    /// The head does not record this run.
    pub(in crate::controller) refused: Option<Refused>,
    /// Somebody wants the run to stop: why, and with how much grace.
    pub(in crate::controller) stop: Option<(Option<String>, Option<u64>)>,
    /// This controller has nothing to say about the run: another one took it over, or its registration was refused.
    pub(in crate::controller) fenced: bool,
    /// How many workers the run can have of what it demands; none until that is known.
    pub(in crate::controller) fits: Option<u32>,
    /// Checkpoints that people want kept.
    pub(in crate::controller) pinned: Vec<u64>,
}

/// The run as the head has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Registered {
    /// Its name.
    pub(in crate::controller) name: String,
    /// How many attempts it has had: the ordinal of the next one.
    pub(in crate::controller) num_attempts: u32,
    /// What its failure budgets were charged with.
    pub(in crate::controller) num_failures: NumFailures,
}

/// Why the head does not record a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Refused {
    /// The stable word for it, `run-ended`.
    pub(in crate::controller) slug: String,
    /// What the head said.
    pub(in crate::controller) detail: String,
}

/// What is shared.
pub(super) struct Link {
    pub(super) queue: Mutex<Queue>,
    /// Something was put in the queue.
    pub(super) changed: Notify,
    pub(super) session: Arc<Session>,
    pub(super) writer: ActorId,
    pub(super) tell: watch::Sender<FromHead>,
    pub(super) token: watch::Sender<Option<Secret>>,
    pub(super) demand: watch::Sender<Option<Demand>>,
    /// How many messages were delivered.
    pub(super) delivered: AtomicU64,
    /// What earlier controllers of the run left and is still to be delivered; none until that was looked for.
    pub(super) inherited: watch::Sender<Option<Vec<PathBuf>>>,
    /// The head does not answer; it was said once.
    away: AtomicBool,
    /// There was no room for metrics; it was said once.
    full: AtomicBool,
}

impl Link {
    pub(super) fn new(session: Arc<Session>, writer: ActorId, limits: Limits) -> Self {
        Self {
            queue: Mutex::new(Queue::new(limits)),
            changed: Notify::new(),
            session,
            writer,
            tell: watch::Sender::default(),
            token: watch::Sender::default(),
            demand: watch::Sender::default(),
            delivered: AtomicU64::new(0),
            inherited: watch::Sender::default(),
            away: AtomicBool::new(false),
            full: AtomicBool::new(false),
        }
    }

    /// Changes the queue, behind everything that was reported so far.
    pub(super) fn put<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let result = {
            let mut queue = self.queue.lock();
            self.take_metrics(&mut queue);
            change(&mut queue)
        };
        self.changed.notify_one();
        result
    }

    fn take_metrics(&self, queue: &mut Queue) {
        for ((attempt, rank), reports) in self.session.take_reports() {
            for batch in batches(&self.writer, attempt, rank, &reports) {
                if !queue.report(batch) && !self.full.swap(true, Ordering::Relaxed) {
                    warn!(
                        "there is no more room for metrics while the head is away; the newest are not kept"
                    );
                }
            }
        }
    }

    /// The head did not answer.
    pub(super) fn trouble(&self, why: &str) {
        if !self.away.swap(true, Ordering::Relaxed) {
            warn!("{why}; training goes on, and what there is to say is delivered later");
        }
    }

    /// The head answered.
    pub(super) fn answered(&self) {
        if self.away.swap(false, Ordering::Relaxed) {
            info!("the head answers again");
        }
    }
}

/// An answer of the head, or none in time.
pub(in crate::controller) async fn limited<T>(
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match timeout(ANSWER_LIMIT, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(ClientError::Unreachable("the head did not answer in time".to_owned())),
    }
}
