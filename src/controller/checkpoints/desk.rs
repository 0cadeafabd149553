//! What the tasks of a desk share: the ledger, the place, what is on its way, and whom it concerns when something changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, Semaphore, mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    CheckpointEvent, CheckpointOptions, Listed, Wait, bytes::copiers, flight::Flight, ledger::Ledger,
    place::Place, progress::Progress, remote::PARTS,
};
use crate::{
    base::{Clock, RunId, Tasks},
    model::{Checkpoint, CheckpointState},
};

/// Ranks that are waited for are looked at this often, or more often if they are to be told of sooner.
const LOOK: Duration = Duration::from_secs(1);

/// Finds the place of the run; fails for as long as something is wrong with it.
pub(super) type FindPlace = Box<dyn Fn() -> Result<Place, String> + Send + Sync>;

/// The run that a desk is for.
#[derive(Clone, Debug)]
pub(super) struct OfRun {
    pub(super) id: RunId,
    pub(super) name: Arc<OnceLock<String>>,
    pub(super) experiment: Option<String>,
    /// Its directory on this node.
    pub(super) dir: PathBuf,
}

pub(super) struct Inner {
    pub(super) options: CheckpointOptions,
    pub(super) run: OfRun,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tasks: Tasks,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) find_place: FindPlace,
    /// Once it was opened; before, why not.
    pub(super) place: Mutex<Result<Place, String>>,
    pub(super) flights: Mutex<BTreeMap<u64, Arc<Flight>>>,
    /// Ends when the last shard of a rank is moved, so that its next one comes after.
    pub(super) last_of_rank: Mutex<HashMap<(u32, u32), oneshot::Receiver<()>>>,
    /// Files that are copied or hashed at a time.
    pub(super) copiers: Arc<Semaphore>,
    /// Parts that are in memory on their way elsewhere.
    pub(super) parts: Arc<Semaphore>,
    pub(super) progress: Progress,
    /// One thing at a time is done to the place as a whole.
    pub(super) house: AsyncMutex<()>,
    /// One checkpoint at a time is fetched, so that it is fetched once.
    pub(super) fetching: AsyncMutex<()>,
    /// Those in the cache that workers were told of, which stay.
    pub(super) told: Mutex<BTreeSet<u64>>,
    /// Being validated right now.
    pub(super) validating: Mutex<BTreeSet<u64>>,
    pub(super) given_up: CancellationToken,
    tidying: Tidying,
    /// Something changed that somebody may wait for.
    changed: watch::Sender<()>,
    happens: mpsc::UnboundedSender<CheckpointEvent>,
    pub(super) happened: AsyncMutex<mpsc::UnboundedReceiver<CheckpointEvent>>,
    waits: Mutex<Option<String>>,
}

/// How often tidying was asked for, and up to which of these it was done.
#[derive(Default)]
struct Tidying {
    wanted: Notify,
    asked: AtomicU64,
    done: AtomicU64,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn new(
        options: CheckpointOptions,
        run: OfRun,
        clock: Arc<dyn Clock>,
        tasks: &Tasks,
        find_place: FindPlace,
    ) -> Arc<Self> {
        // Without a bound: nothing of what is said here may be dropped, nobody here can wait, and there are a few for each
        // checkpoint.
        let (happens, happened) = mpsc::unbounded_channel();
        let inner = Arc::new(Self {
            options,
            run,
            clock,
            tasks: tasks.clone(),
            ledger: Mutex::default(),
            find_place,
            place: Mutex::new(Err("no attempt of the run has begun".to_owned())),
            flights: Mutex::default(),
            last_of_rank: Mutex::default(),
            copiers: Arc::new(Semaphore::new(copiers())),
            parts: Arc::new(Semaphore::new(PARTS)),
            progress: Progress::default(),
            house: AsyncMutex::default(),
            fetching: AsyncMutex::default(),
            told: Mutex::default(),
            validating: Mutex::default(),
            given_up: CancellationToken::new(),
            tidying: Tidying::default(),
            changed: watch::channel(()).0,
            happens,
            happened: AsyncMutex::new(happened),
            waits: Mutex::default(),
        });
        tasks.spawn(inner.clone().keep());
        inner
    }

    /// Looks after what is due, until the controller ends.
    async fn keep(self: Arc<Self>) {
        let stopping = self.tasks.stopping();
        let mut look = interval((self.options.warn_interval / 4).clamp(Duration::from_millis(5), LOOK));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let tidying = self.clone().keep_tidy();
        let mut tidying = std::pin::pin!(tidying);
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                () = &mut tidying => break,
                _ = look.tick() => self.look(),
            }
        }
        self.give_up();
    }

    async fn keep_tidy(self: Arc<Self>) {
        loop {
            self.tidying.wanted.notified().await;
            let asked = self.tidying.asked.load(Ordering::Acquire);
            if let Err(e) = self.tidy().await {
                warn!("checkpoints cannot be cleared away: {e}");
            }
            self.tidying.done.store(asked, Ordering::Release);
            self.has_changed();
        }
    }

    /// Asks for a snapshot, and for what retention lets go to be removed.
    pub(super) fn want_tidy(&self) {
        self.tidying.asked.fetch_add(1, Ordering::AcqRel);
        self.tidying.wanted.notify_one();
    }

    /// Says for which ranks a checkpoint waits.
    fn look(&self) {
        let options = &self.options;
        let now = self.clock.monotonic();
        let waits = self.ledger.lock().waits(now, options.warn_interval, options.collective_timeout);
        let (sentence, timed_out) = waits;
        let mut said = self.waits.lock();
        if *said != sentence {
            said.clone_from(&sentence);
            self.tell(CheckpointEvent::Waits(sentence));
        }
        for sentence in timed_out {
            self.tell(CheckpointEvent::TimedOut(sentence));
        }
    }

    pub(super) fn tell(&self, event: CheckpointEvent) {
        // Nobody listens when the controller is at its end.
        let _ = self.happens.send(event);
    }

    pub(super) fn has_changed(&self) {
        self.changed.send_replace(());
    }

    /// Where the checkpoints lie.
    pub(super) fn place(&self) -> Result<Place, String> {
        self.place.lock().clone()
    }

    /// Changes where a checkpoint stands, and tells of it.
    pub(super) fn change(
        &self,
        number: u64,
        to: CheckpointState,
        detail: Option<String>,
    ) -> Option<Checkpoint> {
        let changed = self.ledger.lock().change(number, to, detail);
        if let Some(checkpoint) = &changed {
            self.tell(CheckpointEvent::Changed(checkpoint.clone()));
            self.has_changed();
        }
        changed
    }

    /// Nothing is waited for any more.
    pub(super) fn give_up(self: &Arc<Self>) {
        self.given_up.cancel();
        let numbers = self.ledger.lock().give_up();
        self.abandon(numbers);
        self.has_changed();
    }

    /// Waits until this holds; at once when all was given up.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        while !self.given_up.is_cancelled() && !holds(self) {
            tokio::select! {
                _ = changed.changed() => {}
                () = self.given_up.cancelled() => {}
            }
        }
    }

    /// Whether nothing of any attempt is under way.
    pub(super) fn is_idle(&self, wait: Wait) -> bool {
        let nothing_open = self.ledger.lock().open_numbers().is_empty() && self.flights.lock().is_empty();
        let tidy = || self.tidying.asked.load(Ordering::Acquire) == self.tidying.done.load(Ordering::Acquire);
        nothing_open
            && tidy()
            && match wait {
                Wait::Uploads => true,
                Wait::Validations => !self.is_validating(),
            }
    }

    /// All checkpoints after the one with this number, as a worker is told of them.
    pub(super) fn listed(&self, after: Option<u64>) -> Vec<Listed> {
        let ledger = self.ledger.lock();
        let ranking = ledger.rank(&self.options.retention);
        let (best, latest) = (ranking.best(), ranking.latest);
        let all = ledger.all().into_iter().filter(|c| after.is_none_or(|after| c.number > after));
        all.map(|Checkpoint { number, record, pinned }| Listed {
            number,
            step: record.step,
            attempt: record.attempt,
            state: record.state,
            uri: record.uri,
            metrics: record.metrics,
            size_bytes: record.size_bytes,
            num_files: record.num_files,
            pinned,
            best: best == Some(number),
            latest: latest == Some(number),
            time_ms: record.committed_at_ms.as_ms(),
        })
        .collect()
    }

    /// Whether a checkpoint is being validated, or waits for it.
    pub(super) fn is_validating(&self) -> bool {
        self.options.validation.is_some()
            && !self.ledger.lock().in_state(CheckpointState::Validating).is_empty()
    }
}
