//! The newest points of runs that report, in memory: what is acknowledged and not sealed yet, and a little of what is, so
//! that charts of live runs read no disk and ask only for what is new. Written by the StateActor after each commit; bounded.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    model::{
        points::Block,
        track::{Digest, Sample, Track},
    },
    store::metrics::Stream,
};

/// Rows of a segment at the most.
const SEGMENT: usize = 1024;
/// Bytes of sealed segments that a stream keeps for those who read on.
const KEPT: usize = 64 * 1024;

/// Batches of a stream with the same keys, one behind the other.
#[derive(Clone, Debug)]
pub(in crate::state) struct Segment {
    block: Block,
    /// Id of each batch, and the row where it ends.
    marks: Vec<(i64, usize)>,
}

impl Segment {
    fn newest(&self) -> i64 {
        self.marks.last().map_or(0, |(id, _)| *id)
    }

    /// Where the rows of batches after `id` begin.
    fn row_after(&self, id: i64) -> usize {
        let n = self.marks.partition_point(|(mark, _)| *mark <= id);
        n.checked_sub(1).and_then(|i| self.marks.get(i)).map_or(0, |(_, end)| *end)
    }

    fn bytes(&self) -> usize {
        self.block.points() * 8
            + self.block.step.len() * 16
            + self.marks.len() * 16
            + self.block.columns.len() * 48
    }

    /// Adds to a track what this segment has of a key after the batch `after`.
    fn collect(&self, key: &str, after: i64, track: &mut Track) {
        let Ok(i) = self.block.columns.binary_search_by(|c| (*c.key).cmp(key)) else { return };
        let (Some(column), from) = (self.block.columns.get(i), self.row_after(after)) else { return };
        let rows = self.block.step.iter().zip(&self.block.time).zip(&column.values).skip(from);
        track.extend(rows.map(|((&step, time), &value)| Sample {
            step,
            time_ms: time.as_ms(),
            value,
            attempt: 0,
        }));
    }
}

/// What is open of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::state) struct Open {
    pub(in crate::state) digest: Digest,
    /// Its steps came in order and each once, so that the digest is exact.
    pub(in crate::state) ascends: bool,
}

/// The window of one stream.
#[derive(Clone, Debug)]
pub(in crate::state) struct StreamWindow {
    pub(in crate::state) stream: Stream,
    segments: VecDeque<Arc<Segment>>,
    /// Shared with who reads it just now.
    open: Arc<HashMap<Arc<str>, Open>>,
    /// Rows that are not sealed.
    open_rows: usize,
    bytes: usize,
    pub(in crate::state) seal: SealState,
}

/// How far the sealing of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::state) enum SealState {
    /// Nobody has asked for it.
    Idle,
    /// It waits for the sealer, or is being sealed.
    Waiting,
    /// The run has ended and nothing is left to do.
    Finished,
}

impl StreamWindow {
    pub(in crate::state) fn new(stream: Stream) -> Self {
        Self {
            stream,
            segments: VecDeque::new(),
            open: Arc::default(),
            open_rows: 0,
            bytes: 0,
            seal: SealState::Idle,
        }
    }

    /// Adds a batch. Blocks have their columns by key.
    pub(in crate::state) fn append(&mut self, id: i64, blocks: Vec<Block>) {
        if self.seal == SealState::Finished {
            self.seal = SealState::Idle;
        }
        for block in blocks {
            self.note(&block);
            self.open_rows += block.step.len();
            let rows = block.step.len();
            let last = self.segments.back_mut().filter(|s| s.block.step.len() + rows <= SEGMENT);
            // A segment that somebody reads just now is left as it is.
            let rest = match last.and_then(Arc::get_mut) {
                Some(segment) => {
                    let before = segment.bytes();
                    let rest = segment.block.append(block).err();
                    if rest.is_none() {
                        segment.marks.push((id, segment.block.step.len()));
                        self.bytes += segment.bytes() - before;
                    }
                    rest
                }
                None => Some(block),
            };
            if let Some(block) = rest {
                let segment = Segment { block, marks: vec![(id, rows)] };
                self.bytes += segment.bytes();
                self.segments.push_back(Arc::new(segment));
            }
        }
    }

    fn note(&mut self, block: &Block) {
        let ascends = block.step.is_sorted_by(|a, b| a < b);
        let open = Arc::make_mut(&mut self.open);
        for column in &block.columns {
            let mut samples = block
                .step
                .iter()
                .zip(&block.time)
                .zip(&column.values)
                .map(|((&step, time), &value)| Sample { step, time_ms: time.as_ms(), value, attempt: 0 });
            let Some(first) = samples.next() else { continue };
            let digest = samples.fold(Digest::of(first), |d, s| d.followed_by(Digest::of(s)));
            match open.get_mut(&column.key) {
                Some(known) => {
                    known.ascends &= ascends && known.digest.last.step < first.step;
                    known.digest = known.digest.followed_by(digest);
                }
                None => {
                    open.insert(Arc::clone(&column.key), Open { digest, ascends });
                }
            }
        }
    }

    /// Its batches up to `through` are in chunks. Returns the newest batch that is not at hand any more, if any went.
    fn sealed(&mut self, through: i64) -> Option<i64> {
        self.stream.sealed_through = through;
        self.seal = SealState::Idle;
        let gone = self.trim(KEPT);
        let mut rest = Self::new(self.stream);
        for segment in self.segments.iter().filter(|s| s.newest() > through) {
            rest.note(&segment.block.rows_from(segment.row_after(through)));
            rest.open_rows += segment.block.step.len() - segment.row_after(through);
        }
        self.open = rest.open;
        self.open_rows = rest.open_rows;
        gone
    }

    /// Lets go of sealed segments, but for the newest that take no more than `keep` bytes.
    fn trim(&mut self, keep: usize) -> Option<i64> {
        let mut kept = 0;
        let stays = self.segments.iter().rev().take_while(|segment| {
            kept += segment.bytes();
            segment.newest() > self.stream.sealed_through || kept <= keep
        });
        let gone = self.segments.len() - stays.count();
        let newest = self.segments.drain(..gone).map(|s| s.newest()).max();
        self.bytes = self.segments.iter().map(|s| s.bytes()).sum();
        newest
    }

    /// Its newest batch that is at hand.
    pub(in crate::state) fn newest(&self) -> i64 {
        self.segments.back().map_or(0, |s| s.newest())
    }

    /// Rows that are not sealed.
    pub(in crate::state) fn open_rows(&self) -> usize {
        self.open_rows
    }

    /// Its batches that are not sealed, oldest first.
    pub(in crate::state) fn unsealed(&self) -> Vec<i64> {
        let marks = self.segments.iter().flat_map(|s| &s.marks).map(|(id, _)| *id);
        let mut ids: Vec<i64> = marks.filter(|id| *id > self.stream.sealed_through).collect();
        // A batch may stand in several segments, one for each set of keys.
        ids.dedup();
        ids
    }

    /// Bytes that its points take.
    pub(in crate::state) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is open of each series after the batch `after`; that is not before what this window knows as sealed.
    pub(in crate::state) fn open_after(&self, after: i64) -> Arc<HashMap<Arc<str>, Open>> {
        if after == self.stream.sealed_through {
            return Arc::clone(&self.open);
        }
        let mut later = self.clone();
        later.sealed(after);
        later.open
    }

    /// The points of a key that were received after the batch `after`, in order of their steps.
    pub(in crate::state) fn track(&self, key: &str, after: i64) -> Track {
        let mut track = Track::default();
        for segment in self.segments.iter().filter(|s| s.newest() > after) {
            segment.collect(key, after, &mut track);
        }
        track.settle();
        track
    }
}

/// The window of one run.
#[derive(Clone, Debug, Default)]
pub(in crate::state) struct RunWindow {
    /// By attempt and rank.
    pub(in crate::state) streams: BTreeMap<(u32, u32), StreamWindow>,
    /// Id of its newest batch.
    pub(in crate::state) newest: i64,
    /// All batches after this one are here.
    pub(in crate::state) complete_after: i64,
}

impl RunWindow {
    pub(super) fn bytes(&self) -> usize {
        self.streams.values().map(StreamWindow::bytes).sum()
    }

    pub(in crate::state) fn stream(&mut self, stream: Stream) -> &mut StreamWindow {
        self.streams.entry((stream.attempt, stream.rank)).or_insert_with(|| StreamWindow::new(stream))
    }

    /// A stream's batches up to `through` are in chunks.
    pub(in crate::state) fn sealed(&mut self, stream_id: i64, through: i64) {
        let Some(window) = self.by_id(stream_id) else { return };
        let gone = window.sealed(through);
        self.complete_after = self.complete_after.max(gone.unwrap_or(0));
    }

    /// The same with those streams only for which `wanted` holds.
    pub(in crate::state) fn part(&self, wanted: impl Fn(u32, u32) -> bool) -> Self {
        let streams = self.streams.iter().filter(|((attempt, rank), _)| wanted(*attempt, *rank));
        Self {
            streams: streams.map(|(at, window)| (*at, window.clone())).collect(),
            newest: self.newest,
            complete_after: self.complete_after,
        }
    }

    pub(in crate::state) fn by_id(&mut self, stream_id: i64) -> Option<&mut StreamWindow> {
        self.streams.values_mut().find(|s| s.stream.id == stream_id)
    }

    pub(super) fn trim(&mut self) {
        let gone = self.streams.values_mut().filter_map(|s| s.trim(0)).max();
        self.complete_after = self.complete_after.max(gone.unwrap_or(0));
    }
}
