//! Sealing: what was reported of a stream becomes chunks. Plain functions: from a stream's batches and the chunks that they
//! touch to chunks that do not overlap. Where a step stands in both, what was received later counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{
        buckets::Rollup,
        track::{Digest, Track},
    },
    store::{
        StoreError,
        codec::{chunk, rollup, summaries, summaries::Sealed, tail::TailBlock},
        metrics::{
            ChunkRow, Sealing,
            view::{ChunkRange, OldChunk},
        },
    },
};

/// Points of a chunk at the most; one with less than half is small.
pub(super) const CHUNK: usize = 8192;
/// So many small chunks at the end of a series become one: what is written anew stays in proportion.
const SMALL: u32 = 16;

/// What is known of a series beside its new points.
#[derive(Debug)]
struct Series {
    new: Track,
    sealed: Option<Sealed>,
    /// Which chunks are written anew.
    anew: Option<ChunkRange>,
}

impl Series {
    /// Whether points came that do not continue it.
    fn is_disordered(&self) -> bool {
        match (&self.sealed, self.new.steps().first()) {
            (Some(sealed), Some(first)) => *first <= sealed.digest.last.step,
            _ => false,
        }
    }
}

/// A stream that is being sealed.
#[derive(Debug)]
pub(super) struct Seal {
    stream_id: i64,
    through: i64,
    series: BTreeMap<i64, Series>,
}

/// A range of steps that reaches the end of a series.
const END: i64 = i64::MAX;

impl Seal {
    /// Of batches, oldest first. With `last`, small chunks become one whatever their number.
    pub(super) fn of(
        stream_id: i64,
        through: i64,
        blocks: impl IntoIterator<Item = TailBlock>,
        sealed: Vec<Sealed>,
        last: bool,
    ) -> Self {
        let mut tracks: BTreeMap<i64, Track> = BTreeMap::new();
        for block in blocks {
            for (key_id, values) in block.columns {
                tracks.entry(key_id).or_default().extend_columns(&block.step, &block.time_ms, &values);
            }
        }
        Self::of_tracks(stream_id, through, tracks, sealed, last)
    }

    /// Of points that stand by key.
    pub(super) fn of_tracks(
        stream_id: i64,
        through: i64,
        tracks: BTreeMap<i64, Track>,
        sealed: Vec<Sealed>,
        last: bool,
    ) -> Self {
        let mut series: BTreeMap<i64, Series> = tracks
            .into_iter()
            .map(|(key_id, mut new)| {
                new.settle();
                (key_id, Series { new, sealed: None, anew: None })
            })
            .collect();
        for sealed in sealed {
            let one = series.entry(sealed.key_id).or_insert(Series {
                new: Track::default(),
                sealed: None,
                anew: None,
            });
            one.anew = anew(&sealed, &one.new, last);
            one.sealed = Some(sealed);
        }
        Self { stream_id, through, series }
    }

    /// Which chunks must be read.
    pub(super) fn ranges(&self) -> Vec<ChunkRange> {
        self.series.values().filter_map(|s| s.anew).collect()
    }

    /// The keys of which the digests of all chunks must be read: points came that do not continue their series.
    pub(super) fn disordered(&self) -> Vec<i64> {
        self.series.iter().filter(|(_, s)| s.is_disordered()).map(|(key, _)| *key).collect()
    }

    /// What is to be written.
    ///
    /// # Errors
    /// When a chunk cannot be read.
    pub(super) fn finish(
        self,
        old: Vec<OldChunk>,
        digests: Vec<(i64, i64, Digest)>,
    ) -> Result<Sealing, StoreError> {
        let mut replaced = BTreeSet::new();
        let mut before: BTreeMap<i64, Track> = BTreeMap::new();
        for OldChunk { id, key_id, points } in old {
            replaced.insert(id);
            let points = chunk::decode(&points)?;
            let track = before.remove(&key_id).unwrap_or_default();
            before.insert(key_id, track.overlaid(points));
        }
        let mut others: BTreeMap<i64, Vec<Digest>> = BTreeMap::new();
        for (id, key_id, digest) in digests {
            if !replaced.contains(&id) {
                others.entry(key_id).or_default().push(digest);
            }
        }
        let mut chunks = Vec::new();
        let mut all = Vec::with_capacity(self.series.len());
        for (key_id, series) in self.series {
            let disordered = series.is_disordered();
            let Series { new, sealed, anew } = series;
            if new.is_empty() && anew.is_none() {
                all.extend(sealed);
                continue;
            }
            let added = new.digest();
            let whole = before.remove(&key_id).unwrap_or_default().overlaid(new);
            let pieces = cut(&whole);
            let digest = match &sealed {
                Some(sealed) if !disordered => {
                    Some(added.map_or(sealed.digest, |new| sealed.digest.followed_by(new)))
                }
                _ => {
                    let mut parts = others.remove(&key_id).unwrap_or_default();
                    parts.extend(pieces.iter().filter_map(Track::digest));
                    parts.sort_by_key(|part| part.first.step);
                    parts.into_iter().reduce(Digest::followed_by)
                }
            };
            let Some(digest) = digest else { continue };
            all.push(standing(key_id, digest, sealed.as_ref(), anew, &pieces));
            for piece in &pieces {
                chunks.push(row(key_id, piece)?);
            }
        }
        let (stream_id, through) = (self.stream_id, self.through);
        let replaced = replaced.into_iter().collect();
        let summaries = summaries::encode(all.iter());
        Ok(Sealing { stream_id, through, summaries, chunks, replaced, ..Sealing::default() })
    }
}

/// Which chunks of a series are written anew for its new points: those that they overlap, and small ones.
fn anew(sealed: &Sealed, new: &Track, last: bool) -> Option<ChunkRange> {
    let key = sealed.key_id;
    let many = sealed.small >= SMALL || new.len() >= CHUNK / 2 || last;
    let (Some(first), Some(to)) = (new.steps().first(), new.steps().last()) else {
        return (last && sealed.small > 1).then_some(ChunkRange(key, sealed.small_from, END));
    };
    if *first > sealed.digest.last.step {
        return (sealed.small > 0 && many).then_some(ChunkRange(key, sealed.small_from, END));
    }
    if *to < sealed.small_from && *to <= sealed.digest.last.step {
        return Some(ChunkRange(key, *first, *to));
    }
    Some(ChunkRange(key, *first.min(&sealed.small_from), END))
}

/// What is sealed of a series after it.
fn standing(
    key_id: i64,
    digest: Digest,
    before: Option<&Sealed>,
    anew: Option<ChunkRange>,
    pieces: &[Track],
) -> Sealed {
    let inside = matches!(anew, Some(ChunkRange(_, _, to)) if to != END);
    let kept = before.filter(|_| anew.is_none() || inside);
    let (small, small_from) = kept.map_or((0, END), |s| (s.small, s.small_from));
    match pieces {
        [one] if !inside && one.len() < CHUNK / 2 => {
            let first = one.steps().first().copied().unwrap_or(END);
            Sealed { key_id, digest, small: small + 1, small_from: small_from.min(first) }
        }
        _ => Sealed { key_id, digest, small, small_from },
    }
}

/// Pieces of about the same length, none longer than a chunk.
fn cut(track: &Track) -> Vec<Track> {
    let pieces = track.len().div_ceil(CHUNK);
    let place = |i: usize| i * track.len() / pieces.max(1);
    (0..pieces).map(|i| track.part(place(i), place(i + 1))).collect()
}

fn row(key_id: i64, piece: &Track) -> Result<ChunkRow, StoreError> {
    let (first_step, last_step) = match piece.steps() {
        [first, .., last] => (*first, *last),
        [only] => (*only, *only),
        [] => (0, 0),
    };
    Ok(ChunkRow {
        key_id,
        first_step,
        last_step,
        digest: piece.digest().map(|d| summaries::encode_digest(&d)).unwrap_or_default(),
        rollup: rollup::encode(&Rollup::of(piece)),
        points: chunk::encode(piece)?,
    })
}
