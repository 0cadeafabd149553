//! Runs in full, ready-made: what does not change between two commits about a run is made once, however often it is
//! looked at. Bounded; empty at the start; what a commit touches is thrown away.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    base::RunId,
    model::{progress::Progress, run::Controller},
};

/// Runs and bytes that are kept at the most.
const RUNS: usize = 1_000;
const BYTES: usize = 64 << 20;

/// A run in full, but for what changes by itself.
#[derive(Debug)]
pub(crate) struct ShownRun {
    /// JSON of an object that is not closed yet.
    pub(crate) json: Vec<u8>,
    /// Who drives it, and its progress as it was written down; none of an ended run, whose JSON has all but the time.
    pub(crate) live: Option<(Controller, Option<Progress>)>,
}

/// The runs that were looked at.
#[derive(Debug, Default)]
pub(crate) struct ShownRuns(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Counts the commits, so that nothing is kept that was read before the newest one.
    commits: u64,
    runs: HashMap<RunId, Arc<ShownRun>>,
    bytes: usize,
}

impl ShownRuns {
    /// The run if it is at hand, and the place in time that [`Self::keep`] wants.
    pub(crate) fn get(&self, run: &RunId) -> (Option<Arc<ShownRun>>, u64) {
        let inner = self.0.lock();
        (inner.runs.get(run).cloned(), inner.commits)
    }

    /// Keeps a run that was read after `commits`, unless something was committed since.
    pub(crate) fn keep(&self, id: &RunId, run: &Arc<ShownRun>, commits: u64) {
        let mut inner = self.0.lock();
        if inner.commits != commits || run.json.len() > BYTES / 8 {
            return;
        }
        if inner.runs.len() >= RUNS || inner.bytes + run.json.len() > BYTES {
            // Which ones are looked at changes; starting anew now and then costs less than knowing.
            inner.runs.clear();
            inner.bytes = 0;
        }
        inner.bytes += run.json.len();
        if let Some(old) = inner.runs.insert(id.clone(), Arc::clone(run)) {
            inner.bytes -= old.json.len();
        }
    }

    /// These runs were changed by a commit.
    pub(crate) fn forget<'a>(&self, runs: impl Iterator<Item = &'a RunId>) {
        let mut inner = self.0.lock();
        inner.commits += 1;
        for run in runs {
            if let Some(old) = inner.runs.remove(run) {
                inner.bytes -= old.json.len();
            }
        }
    }
}
