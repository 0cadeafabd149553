//! Assembling a series: sealed chunks and open points of its attempts, put together without reading more points than the
//! answer needs. Plain functions over what was read.

use std::collections::HashMap;

use crate::{
    base::number::size,
    model::{
        branches::Branch,
        buckets::{Grid, Thinning},
        series::{Axis, Mode, Series, SeriesRequest, Span},
        thin::{largest_triangles, mean},
        track::{Sample, Track},
    },
    store::{
        StoreError,
        codec::{chunk, rollup},
        metrics::view::ChunkHead,
    },
};

/// One attempt's part of a series.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) branch: Branch,
    /// Its chunks, by step.
    pub(super) chunks: Vec<ChunkHead>,
    /// What is not sealed.
    pub(super) open: Track,
}

/// A series before it is read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) key: String,
    pub(super) rank: u32,
    /// None if attempts are merged.
    pub(super) attempt: Option<u32>,
    pub(super) parts: Vec<Part>,
}

/// A piece of a series, whose steps come after those of the piece before.
#[derive(Debug)]
enum Piece {
    /// Points that are known.
    Points(Track),
    /// A chunk that lies in the range whole; its points may not be needed.
    Whole(ChunkHead),
    /// A chunk of which only a part lies in the range, or that newer points change; with those points.
    Cut(ChunkHead, Track),
}

/// A series being assembled.
#[derive(Debug)]
pub(super) struct Assembly {
    key: String,
    rank: u32,
    attempt: Option<u32>,
    pieces: Vec<(u32, Span, Piece)>,
}

impl Assembly {
    /// What lies in the range.
    pub(super) fn of(source: Source, span: Span) -> Self {
        let Source { key, rank, attempt, parts } = source;
        let mut pieces = Vec::new();
        for Part { branch, chunks, open } in parts {
            let span = span.between(branch.from, branch.to);
            let mut next = open.place(span.from_step);
            let mut push = |piece| pieces.push((branch.attempt, span, piece));
            for head in chunks {
                let (first, last) = (head.digest.first.step, head.digest.last.step);
                if last < span.from_step || first > span.to_step {
                    continue;
                }
                let (begins, ends) = (open.place(first), open.place(last.saturating_add(1)));
                if next < begins {
                    push(Piece::Points(inside(&open.part(next, begins), span)));
                }
                let changes = open.part(begins.max(next), ends);
                next = next.max(ends);
                let (from_ms, to_ms) = head.digest.times_ms;
                let inside = span.from_step <= first
                    && last <= span.to_step
                    && span.from_ms <= from_ms
                    && to_ms <= span.to_ms;
                let outside = to_ms < span.from_ms || from_ms > span.to_ms;
                match (changes.is_empty(), inside, outside) {
                    (true, _, true) => {}
                    (true, true, _) => push(Piece::Whole(head)),
                    _ => push(Piece::Cut(head, changes)),
                }
            }
            if next < open.len() {
                push(Piece::Points(inside(&open.part(next, open.len()), span)));
            }
        }
        Self { key, rank, attempt, pieces }
    }

    /// The chunks whose points are needed whatever else is.
    pub(super) fn cut_chunks(&self) -> Vec<i64> {
        let cut = |(_, _, piece): &(u32, Span, Piece)| match piece {
            Piece::Cut(head, _) => Some(head.id),
            _ => None,
        };
        self.pieces.iter().filter_map(cut).collect()
    }

    /// Takes the points of those chunks.
    ///
    /// # Errors
    /// When a chunk cannot be read.
    pub(super) fn take(&mut self, points: &HashMap<i64, Vec<u8>>) -> Result<(), StoreError> {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for (attempt, span, piece) in self.pieces.drain(..) {
            let piece = match piece {
                Piece::Cut(head, changes) => match points.get(&head.id) {
                    Some(bytes) => Piece::Points(inside(&chunk::decode(bytes)?.overlaid(changes), span)),
                    None => Piece::Cut(head, changes),
                },
                Piece::Whole(head) => match points.get(&head.id) {
                    Some(bytes) => Piece::Points(chunk::decode(bytes)?),
                    None => Piece::Whole(head),
                },
                points @ Piece::Points(_) => points,
            };
            pieces.push((attempt, span, piece));
        }
        self.pieces = pieces;
        Ok(())
    }

    /// How many points lie in the range. Exact once the cut chunks' points are there.
    pub(super) fn count(&self) -> usize {
        let of = |(_, _, piece): &(u32, Span, Piece)| match piece {
            Piece::Points(track) => track.len(),
            Piece::Whole(head) | Piece::Cut(head, _) => {
                usize::try_from(head.digest.count).unwrap_or(usize::MAX)
            }
        };
        self.pieces.iter().map(of).sum()
    }

    /// First and last step or time, if there are points.
    pub(super) fn extent(&self, axis: Axis) -> Option<(i64, i64)> {
        let of = |(_, _, piece): &(u32, Span, Piece)| match piece {
            Piece::Points(track) => track.digest(),
            Piece::Whole(head) | Piece::Cut(head, _) => Some(head.digest),
        };
        let digests = || self.pieces.iter().filter_map(of);
        match axis {
            Axis::Step => {
                Some((digests().map(|d| d.first.step).min()?, digests().map(|d| d.last.step).max()?))
            }
            Axis::Time => {
                Some((digests().map(|d| d.times_ms.0).min()?, digests().map(|d| d.times_ms.1).max()?))
            }
        }
    }

    /// The grid by which this series alone is thinned out.
    pub(super) fn grid(&self, request: &SeriesRequest) -> Option<Grid> {
        let (first, last) = self.extent(request.axis)?;
        Some(Grid::over(first, last, request.buckets()))
    }

    /// The chunks whose points are needed besides, to answer by this grid.
    pub(super) fn needed_chunks(
        &self,
        request: &SeriesRequest,
        grid: Option<Grid>,
    ) -> Result<Vec<i64>, StoreError> {
        let all =
            self.count() <= request.max_points || request.mode != Mode::Minmax || request.axis != Axis::Step;
        // With `raw` no more than fit, and what tells where the next begin.
        let mut room = if request.mode == Mode::Raw { request.max_points } else { usize::MAX };
        let mut out = Vec::new();
        for (_, _, piece) in &self.pieces {
            match piece {
                Piece::Points(track) => room = room.saturating_sub(track.len()),
                Piece::Whole(head) | Piece::Cut(head, _) => {
                    let exponent = rollup::exponent(&head.rollup)?;
                    let rolled = !all && grid.zip(exponent).is_some_and(|(grid, e)| grid.holds(e));
                    if !rolled && room > 0 {
                        out.push(head.id);
                        room = room.saturating_sub(usize::try_from(head.digest.count).unwrap_or(0));
                    }
                }
            }
        }
        Ok(out)
    }

    /// The answer.
    ///
    /// # Errors
    /// When a chunk cannot be read.
    pub(super) fn finish(self, request: &SeriesRequest, grid: Option<Grid>) -> Result<Series, StoreError> {
        let count = self.count();
        let (mut samples, next_step) = if count <= request.max_points {
            (self.samples(), None)
        } else {
            let axis = request.axis;
            match (request.mode, grid) {
                (Mode::Minmax, Some(grid)) => (self.thinned(grid, axis)?, None),
                (Mode::Mean, Some(grid)) => (mean(&by(axis, self.samples()), grid, axis), None),
                (Mode::Lttb, _) => {
                    (largest_triangles(&by(axis, self.samples()), request.max_points, axis), None)
                }
                (Mode::Raw, _) | (_, None) => self.page(request.max_points),
            }
        };
        if request.axis == Axis::Time {
            samples = by(Axis::Time, samples);
        }
        Ok(Series {
            key: self.key,
            attempt: self.attempt.map_or_else(|| "merged".into(), Into::into),
            rank: self.rank,
            count: size(count),
            next_step,
            step: samples.iter().map(|s| s.step).collect(),
            time_ms: samples.iter().map(|s| s.time_ms).collect(),
            value: samples.iter().map(|s| crate::model::metrics::MetricValue(s.value)).collect(),
            attempt_at: samples.iter().map(|s| s.attempt).collect(),
        })
    }

    /// All points that are at hand.
    fn samples(&self) -> Vec<Sample> {
        let points = |(attempt, _, piece): &(u32, Span, Piece)| match piece {
            Piece::Points(track) => track.samples().map(|s| Sample { attempt: *attempt, ..s }).collect(),
            Piece::Whole(_) | Piece::Cut(..) => Vec::new(),
        };
        self.pieces.iter().flat_map(points).collect()
    }

    /// The first points, and the step of the first that did not fit.
    fn page(&self, most: usize) -> (Vec<Sample>, Option<i64>) {
        let mut out: Vec<Sample> = Vec::new();
        for (attempt, _, piece) in &self.pieces {
            match piece {
                Piece::Points(track) => {
                    let room = most.saturating_sub(out.len());
                    out.extend(track.samples().take(room).map(|s| Sample { attempt: *attempt, ..s }));
                    if let Some(next) = track.steps().get(room) {
                        return (out, Some(*next));
                    }
                }
                Piece::Whole(head) | Piece::Cut(head, _) => return (out, Some(head.digest.first.step)),
            }
        }
        (out, None)
    }

    fn thinned(&self, grid: Grid, axis: Axis) -> Result<Vec<Sample>, StoreError> {
        if axis == Axis::Time {
            let samples = by(axis, self.samples());
            let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Ok(Vec::new()) };
            let (first, last) = (*first, *last);
            let mut thinning = Thinning::new(grid, axis);
            samples.into_iter().for_each(|sample| thinning.point(sample));
            return Ok(thinning.finish(first, last));
        }
        let mut thinning = Thinning::new(grid, axis);
        let (mut first, mut last) = (None, None);
        for &(attempt, _, ref piece) in &self.pieces {
            let of = |sample: Sample| Sample { attempt, ..sample };
            let ends = match piece {
                Piece::Points(track) => {
                    track.samples().for_each(|sample| thinning.point(of(sample)));
                    track.digest()
                }
                Piece::Whole(head) | Piece::Cut(head, _) => {
                    let rollup = rollup::decode(&head.rollup)?;
                    for bucket in &rollup.buckets {
                        thinning.rolled(rollup.exponent, bucket, attempt);
                    }
                    Some(head.digest)
                }
            };
            if let Some(digest) = ends {
                first = first.or(Some(of(digest.first)));
                last = Some(of(digest.last));
            }
        }
        Ok(first.zip(last).map(|(first, last)| thinning.finish(first, last)).unwrap_or_default())
    }
}

/// What of a track lies in a range.
fn inside(track: &Track, span: Span) -> Track {
    let mut inside = Track::default();
    inside.extend(track.samples().filter(|sample| span.has(sample)));
    inside
}

fn by(axis: Axis, mut samples: Vec<Sample>) -> Vec<Sample> {
    if axis == Axis::Time {
        samples.sort_by_key(|s| s.time_ms);
    }
    samples
}
