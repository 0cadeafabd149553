//! How the ranks of the live attempt stand: when each reported last and how far it is, whether it acts on a notice by
//! itself, and the notice, if their group is going to be ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Serialize;

use crate::{base::Timestamp, controller::policy::Why, model::progress::Progress};

/// What the ranks are told before their group is ended although it does well: one decision for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Why.
    pub reason: Why,
    /// The group is ended by force then.
    pub deadline_ms: Timestamp,
    /// The step at which every rank is to write its checkpoint: none of them has reported it yet. None if no rank
    /// reports steps.
    pub checkpoint_at_step: Option<u64>,
}

/// The ranks of one attempt.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// When the attempt began, on the monotonic clock.
    begun: Duration,
    ranks: BTreeMap<u32, Rank>,
    heeding: BTreeSet<u32>,
    progress: Progress,
    pub(super) notice: Option<Notice>,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    heard: Duration,
    step: Option<u64>,
    /// From one reported step to the next.
    stride: u64,
}

impl Standing {
    pub(super) fn begin(now: Duration) -> Self {
        Self { begun: now, ..Self::default() }
    }

    /// A rank reported.
    pub(super) fn heard(&mut self, rank: u32, step: u64, now: Duration, time: Timestamp) {
        self.progress.report(0, rank, i64::try_from(step).unwrap_or(i64::MAX), time);
        let known = self.ranks.entry(rank).or_insert(Rank { heard: now, step: None, stride: 1 });
        known.heard = now;
        if let Some(before) = known.step
            && step > before
        {
            known.stride = step - before;
        }
        known.step = known.step.max(Some(step));
    }

    /// A rank says that it acts on a notice by itself.
    pub(super) fn heeds(&mut self, rank: u32) {
        self.heeding.insert(rank);
    }

    /// Whether all of these ranks do.
    pub(super) fn all_heed(&self, ranks: &[u32]) -> bool {
        !ranks.is_empty() && ranks.iter().all(|rank| self.heeding.contains(rank))
    }

    /// How long each of these ranks has not been heard of.
    pub(super) fn silence(&self, ranks: &[u32], now: Duration) -> BTreeMap<u32, Duration> {
        let heard = |rank: &u32| self.ranks.get(rank).map_or(self.begun, |r| r.heard);
        ranks.iter().map(|rank| (*rank, now.saturating_sub(heard(rank)))).collect()
    }

    /// Whether no rank has made a step for much longer than a step takes.
    pub(super) fn is_stalled(&self, time: Timestamp) -> bool {
        self.progress.view(time, Some(0)).stalled
    }

    /// The next step that every rank will report and none has: whoever has just reported the newest one hears of the
    /// notice with its next report, which is for a step that is not before this one.
    pub(super) fn next_step(&self) -> Option<u64> {
        self.ranks.values().filter_map(|r| Some(r.step?.saturating_add(r.stride))).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn a_checkpoint_is_agreed_on_at_a_step_that_no_rank_has_reported() {
        let mut standing = Standing::begin(at(0));
        assert_eq!(standing.next_step(), None);
        for (rank, step) in [(0, 10), (1, 10), (0, 20), (1, 20), (0, 30)] {
            standing.heard(rank, step, at(1), Timestamp::from_ms(1));
        }
        assert_eq!(standing.next_step(), Some(40), "rank 0 has reported 30, rank 1 will");
    }

    #[test]
    fn silence_is_counted_from_the_attempt_s_begin_or_the_last_report() {
        let mut standing = Standing::begin(at(5));
        standing.heard(1, 0, at(8), Timestamp::from_ms(1));
        assert_eq!(standing.silence(&[0, 1], at(10)), [(0, at(5)), (1, at(2))].into());
    }

    #[test]
    fn a_group_heeds_when_every_rank_that_runs_does() {
        let mut standing = Standing::begin(at(0));
        standing.heeds(0);
        assert!(standing.all_heed(&[0]) && !standing.all_heed(&[0, 1]) && !standing.all_heed(&[]));
    }
}
