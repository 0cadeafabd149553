//! What the state counts for operators, from the start of this process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commands: Counter,
    pub(crate) commits: Counter,
    /// Microseconds spent in commits.
    pub(crate) commit_us: Counter,
    pub(crate) points: Counter,
    pub(crate) seals: Counter,
    pub(crate) events: Counter,
    pub(crate) stream_resets: Counter,
    pub(crate) purged: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts and gauges of the state, as they are right now.
#[derive(Clone, Copy, Debug)]
pub struct StateFigures {
    /// Commands that were decided.
    pub commands: u64,
    /// Transactions that were committed.
    pub commits: u64,
    /// Time spent in commits, s.
    pub commit_seconds: f64,
    /// Metric points that were taken.
    pub points: u64,
    /// Streams of metrics that were compressed.
    pub seals: u64,
    /// Memory that the newest points of runs take, bytes.
    pub metric_memory_bytes: usize,
    /// Events of the trail.
    pub events: u64,
    /// Streams that were too slow and had to start anew.
    pub stream_resets: u64,
    /// Streams that are open.
    pub streams: usize,
    /// Runs that were deleted for good.
    pub purged: u64,
    /// Runs of each status, in the order of `RunStatus::ALL`.
    pub runs: [usize; 4],
    /// Runs in the trash.
    pub trashed: usize,
    /// Commits and sweeps that failed.
    pub failures: i64,
    /// Age of the last good sweep, s.
    pub sweep_age_seconds: f64,
    /// Commands that wait.
    pub waiting: usize,
    /// Commands that may wait.
    pub mailbox: usize,
}
