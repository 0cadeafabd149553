//! Opening the store and starting the StateActor.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use tokio::sync::{mpsc, watch};
use tracing::info;

use super::{
    StateError, StateHandle,
    actor::{Actor, MAILBOX},
    blocking::blocking,
    counters::Counters,
    data_dir::{DataDir, DataDirLock},
    folding::{self, FoldSignals},
    hub::Hub,
    index::RunIndex,
    live::LiveMap,
    metrics::{Sealer, Windows, upgrade},
    nodes::own_node,
    processes::ProcessWatch,
    shared::Shared,
    shown::ShownRuns,
    unsealed::{ROWS, Unsealed},
    webhooks::WebhookBoard,
    working_set::WorkingSet,
};
use crate::{
    base::{Clock, SystemClock, Tasks, number, secret::SigningKey},
    model::ledger::{Ledger, NodeOffer},
    store::{self, Folder, ListedRun, Writer},
};

/// The shape of the runs' documents; count it up when `TrainRun` changes, and they are made anew at the next start.
pub(super) const DOCUMENTS: &str = "2";

/// What the StateActor needs.
#[derive(Debug)]
pub struct StateOptions {
    /// Where its store lies.
    pub data_dir: DataDir,
    /// The directory's lock.
    pub lock: DataDirLock,
    /// Where it takes time from.
    pub clock: Arc<dyn Clock>,
    /// What this host has for workers.
    pub node: NodeOffer,
    /// Rows of metrics that a stream may have before it is compressed: more take more memory, fewer make small chunks.
    pub seal_rows: usize,
}

impl StateOptions {
    /// A store by this host's clock, with this host's processors for workers.
    #[must_use]
    pub fn new(data_dir: DataDir, lock: DataDirLock) -> Self {
        Self { data_dir, lock, clock: Arc::new(SystemClock::new()), node: own_node(), seal_rows: ROWS }
    }
}

/// The running StateActor.
#[derive(Debug)]
pub struct StateTask {
    tasks: Tasks,
}

impl StateTask {
    /// Finishes what waits, folds the WAL and lets go of the data directory. Returns whether that was in time.
    pub async fn shutdown(self, limit: Duration) -> bool {
        self.tasks.shutdown("the store", limit).await
    }
}

/// Opens the store and starts the StateActor.
///
/// # Errors
/// When the store cannot be opened or is of a later version.
pub async fn start(options: StateOptions) -> Result<(StateHandle, StateTask), StateError> {
    let StateOptions { data_dir, lock, clock, node, seal_rows } = options;
    let path: PathBuf = data_dir.database();
    let (mut writer, reader) = store::open(&path).await?;
    let folder = Folder::connect(&path).await?;
    let io = |e: std::io::Error| StateError::Unavailable(e.to_string());
    let key = match writer.head_value("signing_key").await?.as_deref().and_then(SigningKey::from_hex) {
        Some(key) => key,
        None => {
            let key = SigningKey::generate().map_err(io)?;
            writer.set_head_value("signing_key", key.to_hex()).await?;
            key
        }
    };
    renew_documents(&mut writer).await?;
    upgrade(&mut writer).await?;
    let newest_event = writer.last_event_id().await?;
    let mut index = RunIndex::default();
    reader.listed_runs(|run| index.push(run)).await?;
    let index = blocking(|| index.ordered()).await?;
    let shared = Arc::new(Shared {
        data_dir,
        index: RwLock::new(index),
        live: LiveMap::default(),
        windows: Windows::default(),
        hub: Hub::new(),
        processes: ProcessWatch::new().map_err(io)?,
        reader,
        webhooks: WebhookBoard::default(),
        newest_event: watch::Sender::new(newest_event),
        next_due_ms: AtomicI64::new(i64::MAX),
        concluding: AtomicBool::new(false),
        last_look_ms: AtomicI64::new(number::millis(clock.monotonic())),
        last_sweep_ms: AtomicI64::new(clock.now().as_ms()),
        failures: AtomicI64::new(0),
        broken: RwLock::new(None),
        ledger: RwLock::new(Ledger::of(node.clone())),
        node,
        sampler: Arc::default(),
        counters: Counters::default(),
        shown: ShownRuns::default(),
        clock,
    });
    let set = WorkingSet::load(&mut writer, key, &shared).await?;
    shared.windows.begin(writer.unsealed_batches().await?);
    let mut index = shared.index.write();
    for record in set.records.values() {
        index.put(ListedRun::of(record, None), record.document());
    }
    drop(index);
    info!("the store is open: {} live runs", set.records.len());
    let (sender, mailbox) = mpsc::channel(MAILBOX);
    let (sealer, seals) = Sealer::new(Arc::clone(&shared), &sender);
    let unsealed = Unsealed::new(seals, seal_rows, &shared.windows);
    let fold = Arc::new(FoldSignals::default());
    let actor = Actor::new(writer, set, Arc::clone(&shared), mailbox, lock, unsealed, Arc::clone(&fold));
    let tasks = Tasks::new();
    drop(tasks.spawn(folding::run(folder, fold, tasks.stopping())));
    drop(tasks.spawn(sealer.run(tasks.stopping())));
    drop(tasks.spawn(actor.run(tasks.stopping())));
    Ok((StateHandle::new(sender, shared), StateTask { tasks }))
}

/// Makes the runs' documents anew if an earlier version made them otherwise.
async fn renew_documents(writer: &mut Writer) -> Result<(), StateError> {
    if writer.head_value("documents").await?.as_deref() == Some(DOCUMENTS) {
        return Ok(());
    }
    let mut shown = Instant::now();
    let progress = |done| {
        if shown.elapsed() > Duration::from_secs(2) {
            info!("an earlier version wrote this store; {done} runs are ready to be listed");
            shown = Instant::now();
        }
    };
    writer.renew_documents(progress).await?;
    writer.set_head_value("documents", DOCUMENTS.to_owned()).await?;
    Ok(())
}
