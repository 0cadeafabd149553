//! Which streams must be sealed, and when: a stream when it has grown long, the largest when memory grows short, and all of
//! a run when it has ended.

use std::collections::HashSet;

use tokio::sync::mpsc;
use tracing::warn;

use super::{
    actor::Actor,
    group::{Reported, SealedStream},
    metrics::{SealRequest, SealState, Windows},
};
use crate::{
    base::{RunId, error::chain, number},
    model::points::count,
};

/// Rows at which a stream is sealed when nobody says otherwise.
pub(super) const ROWS: usize = 6144;
/// Bytes at which a stream is sealed, however few its rows.
const BYTES: usize = 8 << 20;
/// Bytes of all windows at which the largest streams are sealed, whatever their length.
const MEMORY: usize = 64 << 20;

/// What waits to be sealed.
#[derive(Debug)]
pub(super) struct Unsealed {
    sealer: mpsc::Sender<SealRequest>,
    rows: usize,
    /// Runs that have ended and are not sealed whole.
    ended: HashSet<RunId>,
}

impl Unsealed {
    /// What an earlier head left is looked at by the first sweep.
    pub(super) fn new(sealer: mpsc::Sender<SealRequest>, rows: usize, windows: &Windows) -> Self {
        Self { sealer, rows, ended: windows.runs().into_iter().collect() }
    }

    /// A run has ended.
    pub(super) fn ended(&mut self, run: RunId, windows: &Windows) {
        if windows.knows(&run) {
            self.ended.insert(run);
        }
    }

    /// Rows at which this stream is sealed: at least `rows`, and up to a third more, each another number, so that streams
    /// which report in step are not all sealed at once.
    fn rows(&self, stream_id: i64) -> usize {
        let spread = self.rows / 3 + 1;
        self.rows + usize::try_from(stream_id).unwrap_or(0).wrapping_mul(389) % spread
    }

    /// Asks for a stream to be sealed; whether it will be.
    fn ask(&self, run: &RunId, stream_id: i64, last: bool) -> SealState {
        let request = SealRequest { run: run.clone(), stream_id, last };
        // If too many wait, it is asked again when the next batch comes.
        self.sealer.try_send(request).map_or(SealState::Idle, |()| SealState::Waiting)
    }
}

impl Actor {
    /// After a commit: the windows have the new points, and browsers are told of them soon.
    pub(super) fn publish_metrics(&mut self, reported: Vec<Reported>, sealed: &[SealedStream]) {
        let windows = &self.shared.windows;
        self.shared.counters.seals.add(number::size(sealed.len()));
        for SealedStream { run, stream_id, through, last } in sealed {
            windows.update(run, |window| {
                window.sealed(*stream_id, *through);
                if let Some(stream) = window.by_id(*stream_id)
                    && *last
                    && stream.open_rows() == 0
                {
                    stream.seal = SealState::Finished;
                }
            });
        }
        for Reported { run, stream, id, blocks } in reported {
            let points = count(&blocks);
            self.shared.counters.points.add(number::size(points));
            *self.ticks.entry(run.clone()).or_default() += points;
            windows.update(&run, |window| {
                window.newest = id;
                let stream = window.stream(stream);
                stream.append(id, blocks);
                let rows = self.unsealed.rows(stream.stream.id);
                let long = stream.open_rows() >= rows || stream.bytes() >= BYTES;
                if long && stream.seal == SealState::Idle {
                    stream.seal = self.unsealed.ask(&run, stream.stream.id, false);
                }
            });
            if !self.shared.live.has(&run) {
                self.unsealed.ended.insert(run);
            }
        }
    }

    /// Has the streams of runs that have ended sealed, and the largest ones if memory grows short.
    pub(super) async fn seal_what_ended(&mut self) {
        for run in self.unsealed.ended.clone() {
            if self.shared.live.has(&run) {
                // It goes on.
                self.unsealed.ended.remove(&run);
                continue;
            }
            if let Err(e) = self.ensure_window(&run).await {
                warn!("metrics of run {run} stay uncompressed for now: {}", chain(&e));
                continue;
            }
            let mut finished = true;
            self.shared.windows.update(&run, |window| {
                for stream in window.streams.values_mut() {
                    if stream.seal == SealState::Idle {
                        stream.seal = self.unsealed.ask(&run, stream.stream.id, true);
                    }
                    finished &= stream.seal == SealState::Finished;
                }
            });
            if finished {
                self.unsealed.ended.remove(&run);
                self.shared.windows.remove(&run);
            }
        }
        if self.shared.windows.bytes() > MEMORY {
            for (run, stream_id) in self.shared.windows.relieve(MEMORY * 3 / 4) {
                let asked = self.unsealed.ask(&run, stream_id, false);
                self.shared.windows.update(&run, |window| {
                    if let Some(stream) = window.by_id(stream_id) {
                        stream.seal = asked;
                    }
                });
            }
        }
    }
}
