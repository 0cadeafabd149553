//! Checkpoints of a run: takes shards in, has their bytes moved, commits what is whole, keeps the ledger and clears away
//! what retention lets go. What of it is decided is plain ([`ledger`]); bytes are moved beside it.

mod bytes;
mod clearing;
mod connect;
mod desk;
mod fetching;
mod flight;
mod ledger;
mod local;
mod opening;
mod place;
mod progress;
mod remote;
mod source;
pub mod storage;
#[cfg(test)]
mod tests;
mod validating;
mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::timeout};

pub use self::written::{Manifest, ManifestFile};
use self::{
    desk::{Inner, OfRun},
    place::Place,
};
use super::validation::Validation;
use crate::{
    base::{Clock, RunId, Tasks},
    model::{Checkpoint, CheckpointState, checkpoint::Retention, metrics::MetricValue},
};

/// Where checkpoints go and which of them are kept.
#[derive(Clone, Debug)]
pub struct CheckpointOptions {
    /// A directory, or an address: `s3://bucket/prefix`, `gs://…`, `az://…`; the run's own directory if none. What is
    /// given is shared: the run's checkpoints lie in `<storage>/<experiment>/<run id>/`.
    pub storage: Option<String>,
    /// Which are kept.
    pub retention: Retention,
    /// A checkpoint that has waited so long for ranks is said, with which ranks and which step.
    pub warn_interval: Duration,
    /// A checkpoint that has waited so long for ranks ends the group; never if none.
    pub collective_timeout: Option<Duration>,
    /// Each committed checkpoint is validated by this.
    pub validation: Option<Validation>,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            storage: None,
            retention: Retention::default(),
            warn_interval: Duration::from_secs(60),
            collective_timeout: None,
            validation: None,
        }
    }
}

/// How the bytes of a shard get to the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UploadMode {
    /// The report returns when they are there.
    #[default]
    Sync,
    /// The report returns at once; what is handed in first is moved first.
    Async,
    /// The worker has written them there by itself.
    NoUpload,
}

/// What a rank hands over with a report.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandedShard {
    /// A directory with the rank's files.
    pub path: PathBuf,
    /// How they get to the storage.
    #[serde(default)]
    pub upload_mode: UploadMode,
    /// Whether the directory goes when they are there.
    #[serde(default)]
    pub delete_local: bool,
    /// The ranks that make up this checkpoint; all of the group if none.
    #[serde(default)]
    pub ranks: Option<BTreeSet<u32>>,
}

/// A shard with the report that it came with.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) attempt: u32,
    pub(super) rank: u32,
    pub(super) step: u64,
    pub(super) metrics: Vec<(String, f64)>,
    pub(super) handed: HandedShard,
}

/// A checkpoint to go on from, on this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usable {
    /// Which one.
    pub number: u64,
    /// The step that it was taken at.
    pub step: u64,
    /// Ordinal of the attempt that wrote it.
    pub attempt: u32,
    /// A directory with its files; none while it has to be fetched.
    pub path: Option<PathBuf>,
    /// What was reported with it and measured of it.
    pub metrics: BTreeMap<String, MetricValue>,
}

/// The newest committed checkpoint, for the answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Newest {
    /// Which one.
    pub number: u64,
    /// The step that it was taken at.
    pub step: u64,
}

/// How a checkpoint stands in the list that a worker asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Which one.
    pub number: u64,
    /// The step that it was taken at.
    pub step: u64,
    /// Ordinal of the attempt that wrote it.
    pub attempt: u32,
    /// Where it is.
    pub state: CheckpointState,
    /// Where it lies.
    pub uri: String,
    /// What was reported with it and measured of it.
    pub metrics: BTreeMap<String, MetricValue>,
    /// Its bytes.
    pub size_bytes: u64,
    /// How many files it has.
    pub num_files: u64,
    /// Somebody wants it kept.
    pub pinned: bool,
    /// It is the best of all.
    pub best: bool,
    /// Training would go on from it.
    pub latest: bool,
    /// When it was whole.
    pub time_ms: i64,
}

/// What a list of checkpoints waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// That everything handed in before is committed.
    Committed,
    /// And that nothing is being validated.
    #[default]
    Validated,
}

/// What a new attempt begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Resume {
    /// The newest checkpoint that is whole.
    pub(super) from: Option<Usable>,
    /// What is to be said about that: newer ones that are broken or gone.
    pub(super) notes: Vec<String>,
    /// Checkpoints cannot be used; the last of the notes says why.
    pub(super) failed: bool,
}

/// What is waited for before an attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Shards of checkpoints of which every rank has handed its own; all others are given up.
    Uploads,
    /// And validations: the run is finishing.
    Validations,
}

/// What happens at the desk.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CheckpointEvent {
    /// The ledger has something new, for the head: the checkpoint as it is now. Said of each that is committed, too.
    Changed(Checkpoint),
    /// A checkpoint is whole.
    Committed(Checkpoint),
    /// A checkpoint waits for ranks, or none does any more: a sentence with the ranks and the step.
    Waits(Option<String>),
    /// One has waited for too long: that sentence.
    TimedOut(String),
    /// One will not be, because a shard could not be moved or its manifest not be written: a sentence.
    Failed(String),
}

/// The desk of one run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk {
    inner: Arc<Inner>,
}

impl Desk {
    /// Opens the desk. What an earlier controller of the run left (`checkpoints.json`) is read when the first attempt
    /// begins; what is wrong with it is told by that one's [`Resume`].
    pub(super) fn open(
        options: CheckpointOptions,
        run: RunId,
        experiment: Option<String>,
        run_dir: PathBuf,
        clock: Arc<dyn Clock>,
        tasks: &Tasks,
    ) -> Self {
        let of_run = OfRun { id: run, name: Arc::default(), experiment, dir: run_dir };
        let (storage, run) = (options.storage.clone(), of_run.clone());
        let find = move || Place::of_run(storage.as_deref(), run.experiment.as_deref(), &run.id, &run.dir);
        Self { inner: Inner::new(options, of_run, clock, tasks, Box::new(find)) }
    }

    /// What the run is called, for who finds its directory. To be said before its first attempt begins.
    pub(super) fn named(self, name: &str) -> Self {
        // It has one name.
        let _ = self.inner.run.name.set(name.to_owned());
        self
    }

    /// Takes a shard; what came of it is told when its bytes are moved (at once for what is not waited for).
    pub(super) fn hand_in(&self, shard: Shard) -> oneshot::Receiver<Result<(), String>> {
        self.inner.take_in(shard)
    }

    /// A rank reported a step without a shard.
    pub(super) fn passed(&self, attempt: u32, rank: u32, step: u64) {
        if self.inner.ledger.lock().passed(attempt, rank, step) {
            self.inner.commit_ready();
        }
    }

    /// The newest committed checkpoint.
    pub(super) fn newest(&self) -> Option<Newest> {
        self.inner.ledger.lock().newest()
    }

    /// The latest usable checkpoint as a directory on this node, fetched once if it lies elsewhere.
    pub(super) async fn fetch_latest(&self) -> Result<Option<Usable>, String> {
        self.inner.fetch_latest().await
    }

    /// All checkpoints after the one with number `after`, when what `consistency` says holds or the limit has passed.
    pub(super) async fn list(
        &self,
        consistency: Consistency,
        after: Option<u64>,
        limit: Option<Duration>,
    ) -> Vec<Listed> {
        let handed_in = self.inner.ledger.lock().open_numbers();
        let holds = self.inner.until(|inner| {
            handed_in.is_disjoint(&inner.ledger.lock().open_numbers())
                && (consistency == Consistency::Committed || !inner.is_validating())
        });
        match limit {
            // What is there then is told.
            Some(limit) => drop(timeout(limit, holds).await),
            None => holds.await,
        }
        self.inner.listed(after)
    }

    /// An attempt begins: staging areas of others are swept, and the newest checkpoint that is whole is looked for. No
    /// shard of it is taken before that is told.
    pub(super) fn begin_attempt(&self, attempt: u32, world_size: u32) -> oneshot::Receiver<Resume> {
        let (tell, told) = oneshot::channel();
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            let _ = tell.send(inner.begin(attempt, world_size).await);
        });
        told
    }

    /// A rank ended well: nothing more comes of it.
    pub(super) fn rank_done(&self, attempt: u32, rank: u32) {
        self.inner.ledger.lock().done(attempt, rank);
        self.inner.commit_ready();
    }

    /// An attempt's processes are gone: tells when nothing of it is under way any more.
    pub(super) fn close_attempt(&self, attempt: u32, wait: Wait) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let given_up = self.inner.ledger.lock().close(attempt);
        self.inner.abandon(given_up);
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            inner.until(|inner| inner.is_idle(wait)).await;
            if !inner.given_up.is_cancelled() {
                inner.sweep_after().await;
            }
            let _ = tell.send(());
        });
        told
    }

    /// Nothing is waited for any more: a close returns at once.
    pub(super) fn give_up(&self) {
        self.inner.give_up();
    }

    /// Those that people want kept, all of them.
    pub(super) fn set_pinned(&self, pinned: BTreeSet<u64>) {
        if self.inner.ledger.lock().set_pinned(pinned) {
            self.inner.want_tidy();
        }
    }

    /// The next thing that happens. Cancel-safe; for one listener.
    pub(super) async fn event(&self) -> CheckpointEvent {
        match self.inner.happened.lock().await.recv().await {
            Some(event) => event,
            // The sender is in the same place.
            None => std::future::pending().await,
        }
    }

    /// The ledger as it is.
    pub(super) fn all(&self) -> Vec<Checkpoint> {
        self.inner.ledger.lock().all()
    }

    /// What is being moved: bytes done and bytes in all; none if nothing is.
    pub(super) fn moving(&self) -> Option<(u64, u64)> {
        self.inner.progress.moving()
    }
}
