//! What is known of all metrics of a run: from the summaries of what is sealed and those of what is not, without a look at
//! the points.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    read::{Reading, Streams},
    window::Open,
};
use crate::{
    base::{RunId, Timestamp},
    model::{
        metrics::{MetricSummary, MetricValue},
        series::{AttemptChoice, Axis, Lost, LostOfAttempt, Mode, Overview, SeriesRequest, Span},
        track::{Digest, Track},
    },
    state::{StateError, shared::Shared},
    store::metrics::Stream,
};

/// A key of a run, and the digests of its series, each with its rank and attempt, in their order.
type Digests = (Arc<str>, Vec<((u32, u32), Digest)>);

pub(super) async fn overview(shared: &Shared, run: &RunId) -> Result<Overview, StateError> {
    let mut streams = Streams::of(shared, run, |_, _| true).await?;
    let keys = streams.snapshot.keys(run).await?;
    let by_id: HashMap<i64, usize> = keys.iter().map(|(id, _)| *id).zip(0..).collect();
    let by_name: HashMap<Arc<str>, usize> = keys.iter().map(|(_, key)| Arc::clone(key)).zip(0..).collect();
    let mut digests: Vec<Digests> = keys.into_iter().map(|(_, key)| (key, Vec::new())).collect();
    let sealed = streams.snapshot.summaries(run).await?;
    let cursor = streams.cursor(&sealed.iter().map(|(stream, _)| *stream).collect::<Vec<_>>());
    let mut unsure = Vec::new();
    for (stream, series) in sealed {
        let window = streams.window(&stream);
        let mut open = window.map(|w| w.open_after(stream.sealed_through)).unwrap_or_default();
        let at = (stream.rank, stream.attempt);
        for sealed in series {
            let Some(place) = by_id.get(&sealed.key_id).copied() else { continue };
            let Some((key, of)) = digests.get_mut(place) else { continue };
            let digest = match Arc::make_mut(&mut open).remove(key) {
                None => sealed.digest,
                Some(Open { digest, ascends }) if ascends && digest.first.step > sealed.digest.last.step => {
                    sealed.digest.followed_by(digest)
                }
                Some(_) => {
                    unsure.push((place, stream));
                    continue;
                }
            };
            of.push((at, digest));
        }
        for (key, open) in &*open {
            let exact = match window {
                Some(window) if !open.ascends => window.track(key, stream.sealed_through).digest(),
                _ => Some(open.digest),
            };
            // Each has its name in the store, which was looked at after what is in memory.
            if let Some((_, of)) = by_name.get(key).and_then(|place| digests.get_mut(*place)) {
                of.extend(exact.map(|digest| (at, digest)));
            }
        }
    }
    drop(streams);
    for (place, stream) in unsure {
        let Some((key, of)) = digests.get_mut(place) else { continue };
        let track = track(shared, run, key, &stream, Span::ALL, usize::MAX).await?;
        of.extend(track.digest().map(|digest| ((stream.rank, stream.attempt), digest)));
    }
    digests.iter_mut().for_each(|(_, of)| of.sort_unstable_by_key(|(at, _)| *at));
    let lost = lost(shared, run, &digests).await?;
    let metrics = digests.iter().filter_map(|(key, of)| summary(key, of)).collect();
    Ok(Overview { metrics, lost, cursor })
}

/// The points of one series.
async fn track(
    shared: &Shared,
    run: &RunId,
    key: &str,
    stream: &Stream,
    span: Span,
    most: usize,
) -> Result<Track, StateError> {
    let request = SeriesRequest {
        keys: vec![key.to_owned()],
        rank: Some(stream.rank),
        attempt: AttemptChoice::One(stream.attempt),
        span,
        max_points: most,
        mode: Mode::Raw,
        axis: Axis::Step,
        since: None,
    };
    let series = Reading::of(shared, run, &request).await?.finish(&request, None).await?;
    let tracks = series
        .into_iter()
        .filter_map(|s| Track::of(s.step, s.time_ms, s.value.into_iter().map(|MetricValue(x)| x).collect()));
    Ok(tracks.reduce(Track::overlaid).unwrap_or_default())
}

fn summary(key: &str, of: &[((u32, u32), Digest)]) -> Option<MetricSummary> {
    let ((lowest, _), _) = of.first()?;
    let (_, newest) = of.iter().take_while(|((rank, _), _)| rank == lowest).last()?;
    let all = of.iter().map(|(_, digest)| *digest).reduce(|a, b| {
        let first = if a.first.step <= b.first.step { a.first } else { b.first };
        let last = if a.last.step >= b.last.step { a.last } else { b.last };
        Digest { first, last, ..a.followed_by(b) }
    })?;
    Some(MetricSummary {
        key: key.to_owned(),
        count: i64::try_from(all.count).unwrap_or(i64::MAX),
        first_step: all.first.step,
        last_step: all.last.step,
        last: MetricValue(newest.last.value),
        min: all.min(),
        max: all.max(),
        nan_count: i64::try_from(all.nan_count).unwrap_or(i64::MAX),
        last_time_ms: Timestamp::from_ms(newest.last.time_ms),
    })
}

/// What restarts threw away: of each attempt the steps from which on a newer one did them again, by the key that it
/// reported most often and the newer ones report as well.
async fn lost(shared: &Shared, run: &RunId, digests: &[Digests]) -> Result<Lost, StateError> {
    let first = digests.iter().filter_map(|(_, of)| of.first());
    let Some(rank) = first.map(|((rank, _), _)| *rank).min() else {
        return Ok(Lost::default());
    };
    let mut chosen: BTreeMap<u32, (u64, &Arc<str>, Digest, i64)> = BTreeMap::new();
    for (key, of) in digests {
        let attempts = || of.iter().filter(|((r, _), _)| *r == rank).map(|((_, attempt), d)| (*attempt, d));
        for (attempt, digest) in attempts() {
            let newer = attempts().filter(|(other, _)| *other > attempt).map(|(_, d)| d.first.step).min();
            let Some(from) = newer else { continue };
            let best = chosen.get(&attempt).is_none_or(|(count, ..)| *count < digest.count);
            if best {
                chosen.insert(attempt, (digest.count, key, *digest, from));
            }
        }
    }
    let mut lost = Lost::default();
    for (attempt, (_, key, digest, from)) in chosen {
        if digest.last.step < from {
            continue;
        }
        // A newer one may begin before what this one did.
        let from = from.max(digest.first.step);
        let stream = Stream { id: 0, attempt, rank, sealed_through: 0 };
        let span = Span { from_step: from, ..Span::ALL };
        let again = track(shared, run, key, &stream, span, 1).await?;
        let begun = again.times_ms().first().copied().unwrap_or(digest.last.time_ms);
        let steps = digest.last.step.abs_diff(from) + 1;
        let ms = u64::try_from(digest.last.time_ms.saturating_sub(begun)).unwrap_or(0);
        lost.add(LostOfAttempt { attempt, steps, ms });
    }
    Ok(lost)
}
