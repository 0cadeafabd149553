//! What the StateActor shows to queries. Written by the actor alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    StateError, counters::Counters, data_dir::DataDir, hub::Hub, index::RunIndex, live::LiveMap,
    metrics::Windows, processes::ProcessWatch, shown::ShownRuns, webhooks::WebhookBoard,
};
use crate::{
    base::{Clock, Timestamp, number, sampler::HostSampler},
    model::ledger::{Ledger, NodeOffer},
    store::Reader,
};

/// The reconciler looks this often even if nobody asks.
pub(super) const SWEEP: Duration = Duration::from_secs(1);

/// What the actor shows to queries.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) data_dir: DataDir,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) index: RwLock<RunIndex>,
    pub(crate) live: LiveMap,
    /// The newest points of runs that report.
    pub(crate) windows: Windows,
    pub(crate) hub: Hub,
    pub(crate) processes: ProcessWatch,
    pub(crate) reader: Reader,
    pub(crate) sampler: Arc<HostSampler>,
    /// The head's own node.
    pub(crate) node: NodeOffer,
    pub(crate) ledger: RwLock<Ledger>,
    pub(crate) counters: Counters,
    pub(crate) shown: ShownRuns,
    pub(crate) webhooks: WebhookBoard,
    /// The id of the newest event that was committed.
    pub(crate) newest_event: watch::Sender<i64>,
    /// Monotonic milliseconds at which a lease may be due; `i64::MAX` if there is none.
    pub(crate) next_due_ms: AtomicI64,
    /// The newly dead have been found and are not in the list yet: whoever reads now waits for that.
    pub(crate) concluding: AtomicBool,
    /// Monotonic milliseconds of the last look at what is newly dead.
    pub(crate) last_look_ms: AtomicI64,
    /// UNIX milliseconds of the last good sweep.
    pub(crate) last_sweep_ms: AtomicI64,
    /// Sweeps and commits that failed.
    pub(crate) failures: AtomicI64,
    /// Whether the last commit failed, and why.
    pub(crate) broken: RwLock<Option<StateError>>,
}

impl Shared {
    /// Whether a look at what is newly dead could find anything: one comparison and one system call, whatever the
    /// number of live runs.
    pub(crate) fn anything_due(&self) -> bool {
        let now = number::millis(self.clock.monotonic());
        let late = now - self.last_look_ms.load(Ordering::Acquire) > number::millis(SWEEP);
        // In this order: what the actor took out of the watch just now it has announced before.
        late || self.next_due_ms.load(Ordering::Acquire) < now
            || self.processes.any_ended()
            || self.concluding.load(Ordering::Acquire)
    }

    /// When the last good sweep was.
    pub(crate) fn last_sweep(&self) -> Timestamp {
        Timestamp::from_ms(self.last_sweep_ms.load(Ordering::Relaxed))
    }
}
