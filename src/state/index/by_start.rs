//! Runs in the order of their starts, in which a stretch is counted without being walked through, and one run costs no
//! more than its own place.

use std::ops::Bound;

use super::{Slot, order::Start};

/// Runs of a chunk at the most.
const CHUNK: usize = 128;

/// Runs by their start. Their chunks stand in order and are never empty.
#[derive(Debug, Default)]
pub(super) struct ByStart {
    chunks: Vec<Vec<(Start, Slot)>>,
    len: usize,
}

/// All runs, as a stretch.
pub(super) const ALL: (Bound<&Start>, Bound<&Start>) = (Bound::Unbounded, Bound::Unbounded);

/// A chunk, and the place in it.
type Position = (usize, usize);

impl ByStart {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn first(&self) -> Option<&Start> {
        self.chunks.first()?.first().map(|(start, _)| start)
    }

    /// Puts a run in that is not there.
    pub(super) fn insert(&mut self, start: Start, slot: Slot) {
        self.len += 1;
        let (mut at, mut place) = self.locate(|other| *other < start);
        // Behind all others is at the end of the last chunk.
        if at > 0 && at == self.chunks.len() {
            at -= 1;
            place = usize::MAX;
        }
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![(start, slot)]);
            return;
        };
        let place = place.min(chunk.len());
        if chunk.len() < CHUNK {
            chunk.insert(place, (start, slot));
        } else if place == 0 || place == CHUNK {
            // Most runs come before all others; so what is full stays full.
            self.chunks.insert(at + place.min(1), vec![(start, slot)]);
        } else {
            let mut behind = chunk.split_off(CHUNK / 2);
            let half = if place < CHUNK / 2 { &mut *chunk } else { &mut behind };
            half.insert(place % (CHUNK / 2), (start, slot));
            self.chunks.insert(at + 1, behind);
        }
    }

    pub(super) fn remove(&mut self, start: &Start) {
        let (at, place) = self.locate(|other| other < start);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        if chunk.get(place).is_some_and(|(other, _)| other == start) {
            chunk.remove(place);
            self.len -= 1;
            if chunk.is_empty() {
                self.chunks.remove(at);
            }
        }
    }

    /// A stretch of the runs.
    pub(super) fn range<'a>(
        &'a self,
        from: Bound<&Start>,
        to: Bound<&Start>,
    ) -> impl DoubleEndedIterator<Item = (&'a Start, Slot)> + use<'a> {
        let ((first, begin), (last, end)) = self.edges(from, to);
        let chunks = self.chunks.get(first..self.chunks.len().min(last + 1)).unwrap_or_default();
        chunks.iter().enumerate().flat_map(move |(i, chunk)| {
            let begin = if i == 0 { begin } else { 0 };
            let end = if first + i == last { end } else { chunk.len() };
            chunk.get(begin..end).unwrap_or_default().iter().map(|(start, slot)| (start, *slot))
        })
    }

    /// The runs of a stretch that come after a place, one way or the other.
    pub(super) fn walk<'a>(
        &'a self,
        (from, to): (Bound<&Start>, Bound<&Start>),
        after: Option<&Start>,
        backwards: bool,
    ) -> Box<dyn Iterator<Item = (&'a Start, Slot)> + 'a> {
        let edge = |bound| match bound {
            Bound::Included(start) | Bound::Excluded(start) => Some(start),
            Bound::Unbounded => None,
        };
        if backwards {
            let sooner = |after: &&Start| edge(to).is_none_or(|to| *after < to);
            Box::new(self.range(from, after.filter(sooner).map_or(to, Bound::Excluded)).rev())
        } else {
            let later = |after: &&Start| edge(from).is_none_or(|from| *after >= from);
            Box::new(self.range(after.filter(later).map_or(from, Bound::Excluded), to))
        }
    }

    /// How many runs a stretch has.
    pub(super) fn count(&self, from: Bound<&Start>, to: Bound<&Start>) -> usize {
        let (begin, end) = self.edges(from, to);
        self.rank(end).saturating_sub(self.rank(begin))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.chunks.iter().flatten().map(|(_, slot)| *slot)
    }

    fn edges(&self, from: Bound<&Start>, to: Bound<&Start>) -> (Position, Position) {
        let begin = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(start) => self.locate(|other| other < start),
            Bound::Excluded(start) => self.locate(|other| other <= start),
        };
        let end = match to {
            Bound::Unbounded => (self.chunks.len(), 0),
            Bound::Included(start) => self.locate(|other| other <= start),
            Bound::Excluded(start) => self.locate(|other| other < start),
        };
        (begin, end)
    }

    /// The first place that is not before.
    fn locate(&self, is_before: impl Fn(&Start) -> bool) -> Position {
        let all_before = |chunk: &Vec<_>| chunk.last().is_some_and(|(last, _)| is_before(last));
        let at = self.chunks.partition_point(all_before);
        let place =
            self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|(start, _)| is_before(start)));
        (at, place)
    }

    fn rank(&self, (at, place): Position) -> usize {
        self.chunks.iter().take(at).map(Vec::len).sum::<usize>() + place
    }
}

/// From runs that stand in order.
impl FromIterator<(Start, Slot)> for ByStart {
    fn from_iter<I: IntoIterator<Item = (Start, Slot)>>(runs: I) -> Self {
        let runs: Vec<_> = runs.into_iter().collect();
        debug_assert!(runs.is_sorted());
        Self { len: runs.len(), chunks: runs.chunks(CHUNK).map(<[_]>::to_vec).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BTreeMap, ops::RangeBounds};

    use proptest::prelude::*;

    use super::*;
    use crate::base::{RunId, Timestamp};

    fn start(ms: i64) -> Start {
        (Reverse(Timestamp::from_ms(ms)), Reverse(RunId::parse("r").unwrap()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_an_ordered_map_that_counts(
            filled in 0..600i64,
            ops in prop::collection::vec((any::<bool>(), 0..900i64), 0..600),
            from in prop::option::of((any::<bool>(), 0..900i64)),
            to in prop::option::of((any::<bool>(), 0..900i64)),
        ) {
            let mut plain: BTreeMap<Start, Slot> = (0..filled).map(|ms| (start(ms), 1)).collect();
            let mut runs: ByStart = plain.clone().into_iter().collect();
            for (slot, (put, ms)) in ops.into_iter().enumerate() {
                let at = start(ms);
                if put && !plain.contains_key(&at) {
                    plain.insert(at.clone(), slot);
                    runs.insert(at, slot);
                } else {
                    plain.remove(&at);
                    runs.remove(&at);
                }
            }
            let bound = |edge: Option<(bool, i64)>| match edge {
                None => Bound::Unbounded,
                Some((true, ms)) => Bound::Included(start(ms)),
                Some((false, ms)) => Bound::Excluded(start(ms)),
            };
            let (from, to) = (bound(from), bound(to));
            let within: Vec<(&Start, Slot)> =
                plain.iter().filter(|(at, _)| (from.clone(), to.clone()).contains(*at)).map(|(at, s)| (at, *s)).collect();
            prop_assert_eq!(runs.count(from.as_ref(), to.as_ref()), within.len());
            prop_assert!(runs.range(from.as_ref(), to.as_ref()).eq(within.iter().copied()));
            prop_assert!(runs.range(from.as_ref(), to.as_ref()).rev().eq(within.iter().rev().copied()));
            prop_assert_eq!((runs.len(), runs.is_empty(), runs.first()), (plain.len(), plain.is_empty(), plain.keys().next()));
            prop_assert!(runs.slots().eq(plain.values().copied()));
            prop_assert!(runs.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        }
    }
}
