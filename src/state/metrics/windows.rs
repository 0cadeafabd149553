//! The windows of all runs, and of runs that have none the batches that stand in the store only.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;

use super::window::{RunWindow, SealState, StreamWindow};
use crate::base::RunId;

/// The windows of all runs that report.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    runs: RwLock<HashMap<RunId, Place>>,
    bytes: AtomicUsize,
}

/// Where the batches of a run are that are not sealed.
#[derive(Debug)]
enum Place {
    Memory(Arc<RwLock<RunWindow>>),
    /// In the store only, under these ids: an earlier head took them, or a commit failed since.
    Store(Vec<i64>),
}

impl Windows {
    pub(in crate::state) fn get(&self, run: &RunId) -> Option<Arc<RwLock<RunWindow>>> {
        match self.runs.read().get(run) {
            Some(Place::Memory(window)) => Some(Arc::clone(window)),
            Some(Place::Store(_)) | None => None,
        }
    }

    /// The window of a run; if it has none, the batches that stand in the store.
    pub(in crate::state) fn find(&self, run: &RunId) -> Result<Arc<RwLock<RunWindow>>, Vec<i64>> {
        match self.runs.read().get(run) {
            Some(Place::Memory(window)) => Ok(Arc::clone(window)),
            Some(Place::Store(batches)) => Err(batches.clone()),
            None => Err(Vec::new()),
        }
    }

    /// All batches of a run that are not sealed.
    pub(in crate::state) fn unsealed(&self, run: &RunId) -> Vec<i64> {
        self.find(run).map_or_else(
            |batches| batches,
            |window| window.read().streams.values().flat_map(StreamWindow::unsealed).collect(),
        )
    }

    /// The runs that have batches which are not sealed, as far as that is known without a look at windows.
    pub(in crate::state) fn runs(&self) -> Vec<RunId> {
        self.runs.read().keys().cloned().collect()
    }

    /// Whether a run has a window, or batches in the store.
    pub(crate) fn knows(&self, run: &RunId) -> bool {
        self.runs.read().contains_key(run)
    }

    /// Whether a stream of a run is among them.
    pub(crate) fn has_stream(&self, run: &RunId, stream_id: i64) -> bool {
        self.get(run).is_some_and(|w| w.read().streams.values().any(|s| s.stream.id == stream_id))
    }

    /// Id of a run's newest batch.
    pub(crate) fn newest(&self, run: &RunId) -> Option<i64> {
        self.get(run).map(|w| w.read().newest)
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(in crate::state) fn put(&self, run: &RunId, window: RunWindow) {
        self.bytes.fetch_add(window.bytes(), Ordering::Relaxed);
        let window = Place::Memory(Arc::new(RwLock::new(window)));
        let before = self.runs.write().insert(run.clone(), window);
        self.gone(before);
    }

    pub(crate) fn remove(&self, run: &RunId) {
        let before = self.runs.write().remove(run);
        self.gone(before);
    }

    fn gone(&self, place: Option<Place>) {
        if let Some(Place::Memory(window)) = place {
            self.bytes.fetch_sub(window.read().bytes(), Ordering::Relaxed);
        }
    }

    /// Forgets everything but where the batches stand that are not sealed; they are read when they are needed.
    pub(crate) fn begin(&self, unsealed: HashMap<RunId, Vec<i64>>) {
        let places = unsealed.into_iter().map(|(run, batches)| (run, Place::Store(batches)));
        *self.runs.write() = places.collect();
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub(in crate::state) fn update<T>(
        &self,
        run: &RunId,
        change: impl FnOnce(&mut RunWindow) -> T,
    ) -> Option<T> {
        let window = self.get(run)?;
        let mut window = window.write();
        let before = window.bytes();
        let result = change(&mut window);
        let after = window.bytes();
        self.bytes.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        self.bytes.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
        Some(result)
    }

    /// Lets go of all that is sealed, and names the streams, largest first, that must be sealed for the windows to take
    /// no more than so many bytes.
    pub(in crate::state) fn relieve(&self, most: usize) -> Vec<(RunId, i64)> {
        let mut all = Vec::new();
        for run in self.runs() {
            self.update(&run, |window| {
                window.trim();
                let open =
                    window.streams.values().filter(|s| s.seal != SealState::Waiting && s.open_rows() > 0);
                all.extend(open.map(|s| (s.bytes(), run.clone(), s.stream.id)));
            });
        }
        all.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let mut left = self.bytes();
        let needed = all.into_iter().take_while(|(bytes, ..)| {
            let needed = left > most;
            left = left.saturating_sub(*bytes);
            needed
        });
        needed.map(|(_, run, stream)| (run, stream)).collect()
    }
}
