//! Reading series: which attempts and ranks make them up, what of them is in memory, and what must be fetched.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    pieces::{Assembly, Part, Source},
    window::{RunWindow, StreamWindow},
};
use crate::{
    base::RunId,
    model::{
        branches::{Branch, merged},
        buckets::Grid,
        series::{AttemptChoice, Axis, Series, SeriesAnswer, SeriesRequest, Span},
        track::Track,
    },
    state::{StateError, blocking::blocking, shared::Shared},
    store::{
        StoreError,
        codec::tail,
        metrics::{
            Stream,
            view::{ChunkHead, Snapshot, TailRow},
        },
    },
};

/// Points beyond which the work is taken off the threads that answer.
const MUCH: usize = 50_000;

/// The wanted series of one run, before points are read, and the moment at which they are looked at.
pub(super) struct Reading {
    snapshot: Snapshot,
    sources: Vec<Source>,
}

/// A run's streams as they are, and the newest of their points in memory.
pub(super) struct Streams {
    pub(super) snapshot: Snapshot,
    pub(super) streams: Vec<Stream>,
    windows: BTreeMap<(u32, u32), StreamWindow>,
}

impl Streams {
    /// Looks at the streams for which `wanted` holds. What is in memory is taken first: what is sealed after that is in
    /// the snapshot, so nothing is missed.
    pub(super) async fn of(
        shared: &Shared,
        run: &RunId,
        wanted: impl Fn(u32, u32) -> bool,
    ) -> Result<Self, StateError> {
        let window = shared.windows.find(run).map(|w| w.read().part(&wanted));
        let mut snapshot = shared.reader.snapshot().await?;
        let mut streams = snapshot.streams(run).await?;
        streams.retain(|s| wanted(s.attempt, s.rank));
        let windows = match window {
            Ok(window) => window.streams,
            Err(batches) => {
                let rows = snapshot.tail(&batches).await?;
                if rows.is_empty() {
                    BTreeMap::new()
                } else {
                    let names: HashMap<i64, Arc<str>> = snapshot.keys(run).await?.into_iter().collect();
                    window_of(&streams, rows, &names)?.streams
                }
            }
        };
        Ok(Self { snapshot, streams, windows })
    }

    /// What is open of a key in a stream.
    fn open(&self, stream: &Stream, key: &str) -> Track {
        let window = self.windows.get(&(stream.attempt, stream.rank));
        window.map(|w| w.track(key, stream.sealed_through)).unwrap_or_default()
    }

    /// The position up to which these, all streams of the run, are known.
    pub(super) fn cursor(&self, streams: &[Stream]) -> i64 {
        let sealed = streams.iter().map(|s| s.sealed_through);
        sealed.chain(self.windows.values().map(StreamWindow::newest)).max().unwrap_or(0)
    }

    /// The window of a stream.
    pub(super) fn window(&self, stream: &Stream) -> Option<&StreamWindow> {
        self.windows.get(&(stream.attempt, stream.rank))
    }
}

/// The window of a run whose batches stand in these rows.
///
/// # Errors
/// When a row cannot be read.
pub(in crate::state) fn window_of(
    streams: &[Stream],
    rows: Vec<TailRow>,
    names: &HashMap<i64, Arc<str>>,
) -> Result<RunWindow, StoreError> {
    let mut window = RunWindow::default();
    let mut by_id = HashMap::new();
    for stream in streams {
        by_id.insert(stream.id, *stream);
        window.stream(*stream);
        window.complete_after = window.complete_after.max(stream.sealed_through);
    }
    window.newest = window.complete_after;
    for row in rows {
        let Some(stream) = by_id.get(&row.stream_id) else { continue };
        let mut blocks = Vec::new();
        for block in tail::decode(&row.points)? {
            let mut block = block.named(|id| names.get(&id).map(Arc::clone));
            block.sort();
            blocks.push(block);
        }
        window.newest = window.newest.max(row.id);
        window.stream(*stream).append(row.id, blocks);
    }
    Ok(window)
}

/// Whether a stream is one of those that are asked for.
fn wanted(request: &SeriesRequest) -> impl Fn(u32, u32) -> bool {
    let (rank, choice) = (request.rank, request.attempt);
    move |of_attempt, of_rank| {
        rank.is_none_or(|rank| rank == of_rank)
            && !matches!(choice, AttemptChoice::One(attempt) if attempt != of_attempt)
    }
}

impl Reading {
    /// Looks for what is asked for.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn of(
        shared: &Shared,
        run: &RunId,
        request: &SeriesRequest,
    ) -> Result<Self, StateError> {
        let mut streams = Streams::of(shared, run, wanted(request)).await?;
        let ids = streams.snapshot.key_ids(run, &request.keys).await?;
        let key_ids: Vec<i64> = request.keys.iter().filter_map(|key| ids.get(key).copied()).collect();
        let stream_ids: Vec<i64> = streams.streams.iter().map(|s| s.id).collect();
        let merges = request.attempt == AttemptChoice::Merged
            && streams.streams.iter().any(|a| streams.streams.iter().any(|b| a.rank == b.rank && a != b));
        let mut extents: HashMap<(i64, i64), (i64, i64)> = HashMap::new();
        if merges {
            for (key, stream, first, last) in streams.snapshot.extents(&key_ids, &stream_ids).await? {
                extents.insert((key, stream), (first, last));
            }
        }
        let range = (request.span.from_step, request.span.to_step);
        let mut heads: HashMap<(i64, i64), Vec<ChunkHead>> = HashMap::new();
        for head in streams.snapshot.heads(&key_ids, &stream_ids, range).await? {
            heads.entry((head.key_id, head.stream_id)).or_default().push(head);
        }
        let mut sources = Vec::new();
        for key in &request.keys {
            let Some(&key_id) = ids.get(key) else { continue };
            let mut by_series: BTreeMap<(u32, Option<u32>), Vec<Part>> = BTreeMap::new();
            for stream in &streams.streams {
                let open = streams.open(stream, key);
                let chunks = heads.remove(&(key_id, stream.id)).unwrap_or_default();
                let branch = if merges {
                    let mut ends: Vec<i64> =
                        extents.get(&(key_id, stream.id)).map(|(a, b)| vec![*a, *b]).unwrap_or_default();
                    ends.extend(open.steps().first().into_iter().chain(open.steps().last()));
                    let (Some(from), Some(to)) = (ends.iter().min(), ends.iter().max()) else { continue };
                    Branch { attempt: stream.attempt, from: *from, to: *to }
                } else {
                    Branch { attempt: stream.attempt, from: i64::MIN, to: i64::MAX }
                };
                let shown = (request.attempt != AttemptChoice::Merged).then_some(stream.attempt);
                by_series.entry((stream.rank, shown)).or_default().push(Part { branch, chunks, open });
            }
            for ((rank, attempt), mut parts) in by_series {
                if merges {
                    parts = split(parts);
                }
                sources.push(Source { key: key.clone(), rank, attempt, parts });
            }
        }
        Ok(Self { snapshot: streams.snapshot, sources })
    }

    /// First and last step or time of all of it.
    pub(super) fn extent(&self, request: &SeriesRequest) -> Option<(i64, i64)> {
        let parts = || self.sources.iter().flat_map(|s| &s.parts);
        let digests = || parts().flat_map(|p| p.chunks.iter().map(|c| c.digest).chain(p.open.digest()));
        let Span { from_step, to_step, from_ms, to_ms } = request.span;
        match request.axis {
            Axis::Step => {
                let first = digests().map(|d| d.first.step).min()?.max(from_step);
                Some((first, digests().map(|d| d.last.step).max()?.min(to_step)))
            }
            Axis::Time => {
                let first = digests().map(|d| d.times_ms.0).min()?.max(from_ms);
                Some((first, digests().map(|d| d.times_ms.1).max()?.min(to_ms)))
            }
        }
    }

    /// The series; on this grid if one is given, else each on its own.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn finish(
        self,
        request: &SeriesRequest,
        grid: Option<Grid>,
    ) -> Result<Vec<Series>, StateError> {
        let Self { mut snapshot, sources } = self;
        let mut assemblies: Vec<Assembly> =
            sources.into_iter().map(|source| Assembly::of(source, request.span)).collect();
        let cut: Vec<i64> = assemblies.iter().flat_map(Assembly::cut_chunks).collect();
        let points = snapshot.points(&cut).await?;
        let mut needed = Vec::new();
        for assembly in &mut assemblies {
            assembly.take(&points)?;
            let grid = grid.or_else(|| assembly.grid(request));
            needed.extend(assembly.needed_chunks(request, grid)?);
        }
        let points = snapshot.points(&needed).await?;
        // Others may want its connection while this one thinks.
        drop(snapshot);
        let much = assemblies.iter().map(Assembly::count).sum::<usize>() > MUCH;
        let request = request.clone();
        let finish = move || {
            let one = |mut assembly: Assembly| {
                let grid = grid.or_else(|| assembly.grid(&request));
                assembly.take(&points)?;
                assembly.finish(&request, grid)
            };
            assemblies.into_iter().filter(|a| a.count() > 0).map(one).collect::<Result<_, StoreError>>()
        };
        let series = if much { blocking(finish).await? } else { finish() };
        Ok(series?)
    }
}

/// The parts of a merged curve, in the order of steps. An attempt whose middle a newer one replaces stands twice.
fn split(parts: Vec<Part>) -> Vec<Part> {
    let shown = merged(parts.iter().map(|p| p.branch).collect());
    let mut out = Vec::with_capacity(shown.len());
    let mut left: BTreeMap<u32, Part> = parts.into_iter().map(|p| (p.branch.attempt, p)).collect();
    for branch in shown {
        let Some(part) = left.get_mut(&branch.attempt) else { continue };
        let reaches = |head: &ChunkHead| head.digest.last.step > branch.to;
        let kept = part.chunks.iter().position(reaches).unwrap_or(part.chunks.len());
        // A chunk that reaches beyond this part may be wanted by the next one too.
        let shared = part.chunks.get(kept).cloned();
        let mut chunks: Vec<ChunkHead> = part.chunks.drain(..kept).collect();
        chunks.extend(shared);
        let open = part.open.part(part.open.place(branch.from), part.open.place(branch.to.saturating_add(1)));
        out.push(Part { branch, chunks, open });
    }
    out
}

/// The position up to which a run's batches are known.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn cursor(shared: &Shared, run: &RunId) -> Result<i64, StateError> {
    match shared.windows.find(run) {
        Ok(window) => Ok(window.read().newest),
        Err(batches) => {
            let sealed = shared.reader.snapshot().await?.newest_sealed(run).await?;
            Ok(batches.into_iter().fold(sealed, i64::max))
        }
    }
}

/// What came after a position; nothing if that is not at hand, or more than is asked for.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn news(
    shared: &Shared,
    run: &RunId,
    request: &SeriesRequest,
    since: i64,
) -> Result<Option<SeriesAnswer>, StateError> {
    let Some(window) = shared.windows.get(run) else {
        let cursor = cursor(shared, run).await?;
        let nothing = SeriesAnswer { series: Vec::new(), cursor, whole: false };
        return Ok((cursor == since).then_some(nothing));
    };
    let window = window.read().part(wanted(request));
    if since < window.complete_after || since > window.newest {
        return Ok(None);
    }
    let mut series = Vec::new();
    for key in &request.keys {
        for (&(attempt, rank), stream) in &window.streams {
            let track = stream.track(key, since);
            let branch = Branch { attempt, from: i64::MIN, to: i64::MAX };
            let parts = vec![Part { branch, chunks: Vec::new(), open: track }];
            let source = Source { key: key.clone(), rank, attempt: Some(attempt), parts };
            let assembly = Assembly::of(source, request.span);
            let count = assembly.count();
            if count > request.max_points {
                return Ok(None);
            }
            if count > 0 {
                series.push(assembly.finish(request, None)?);
            }
        }
    }
    Ok(Some(SeriesAnswer { series, cursor: window.newest, whole: false }))
}
