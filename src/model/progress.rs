//! Progress: how far each rank is, how quick, and whether it stands still.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::metrics::MetricValue;
use crate::base::{Timestamp, number};

/// How many intervals the median is taken of.
const INTERVALS: usize = 32;
/// A run is stalled after this many of its median step intervals without a step.
const STALL_FACTOR: u32 = 10;
/// No run is called stalled sooner: quick loops pause for evaluation.
const STALL_MIN: Duration = Duration::from_secs(10);
/// Most keys whose last value is kept at hand for lists; the store knows all of them.
const LAST_VALUES: usize = 64;

/// What is known of a run's progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    ranks: BTreeMap<u32, RankProgress>,
    intervals_ms: VecDeque<i64>,
    last_values: BTreeMap<String, LastValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct RankProgress {
    attempt: u32,
    last_step: i64,
    last_report: Timestamp,
    last_advance: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct LastValue {
    attempt: u32,
    step: i64,
    value: MetricValue,
}

/// What a run reported last, as the list keeps it of one that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastReported {
    /// The last value of each key at hand.
    pub values: Vec<(String, f64)>,
    /// The leading rank's last step.
    pub step: Option<i64>,
}

/// Progress as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProgressView {
    /// The leading rank's last step.
    pub last_step: Option<i64>,
    /// When any rank last reported.
    pub last_report_ms: Option<Timestamp>,
    /// When any rank of the attempt that runs last made a step.
    pub last_advance_ms: Option<Timestamp>,
    /// Median time between two steps.
    pub median_step_interval_ms: Option<f64>,
    /// No rank of the attempt that runs has made a step for ten median intervals, at least 10 s. An attempt that has not
    /// reported yet may load for as long as it likes.
    pub stalled: bool,
    /// Since when.
    pub stalled_since_ms: Option<Timestamp>,
    /// Each rank that reported.
    pub ranks: Vec<RankView>,
}

/// One rank's progress.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RankView {
    /// World rank.
    pub rank: u32,
    /// Its last step.
    pub last_step: i64,
    /// When it last reported.
    pub last_report_ms: Timestamp,
}

impl Progress {
    /// Takes note of a report: the highest step of it, at the server's receipt time.
    pub fn report(&mut self, attempt: u32, rank: u32, step: i64, now: Timestamp) {
        if self.ranks.values().any(|r| r.attempt < attempt) {
            // A new attempt starts its own clock: the time of a restart is not a step's time.
            self.ranks.clear();
        }
        let fresh = RankProgress { attempt, last_step: step, last_report: now, last_advance: now };
        let known = self.ranks.entry(rank).or_insert(fresh);
        if known.attempt > attempt {
            return;
        }
        if step > known.last_step {
            let steps = step - known.last_step;
            self.intervals_ms.push_back(number::millis(now.since(known.last_advance)) / steps);
            if self.intervals_ms.len() > INTERVALS {
                self.intervals_ms.pop_front();
            }
            known.last_step = step;
            known.last_advance = now;
        }
        known.last_report = now;
    }

    /// Takes note of a value, to be shown in lists.
    pub fn value(&mut self, key: &str, attempt: u32, step: i64, value: f64) {
        let fresh = LastValue { attempt, step, value: MetricValue(value) };
        let room = self.last_values.len() < LAST_VALUES;
        match self.last_values.get_mut(key) {
            Some(last) if (attempt, step) >= (last.attempt, last.step) => *last = fresh,
            Some(_) => {}
            None if room => {
                self.last_values.insert(key.to_owned(), fresh);
            }
            None => {}
        }
    }

    /// The leading rank's last step.
    #[must_use]
    pub fn last_step(&self) -> Option<i64> {
        self.ranks.values().map(|r| r.last_step).max()
    }

    /// When any rank last reported.
    #[must_use]
    pub fn last_report(&self) -> Option<Timestamp> {
        self.ranks.values().map(|r| r.last_report).max()
    }

    /// The last value of each key at hand.
    #[must_use]
    pub fn last_metrics(&self) -> BTreeMap<&str, MetricValue> {
        self.last_values.iter().map(|(k, v)| (k.as_str(), v.value)).collect()
    }

    /// What was reported last.
    #[must_use]
    pub fn last_reported(&self) -> LastReported {
        LastReported { values: self.last_values(), step: self.last_step() }
    }

    /// The last value of each key at hand, as numbers.
    #[must_use]
    pub fn last_values(&self) -> Vec<(String, f64)> {
        self.last_values.iter().map(|(key, last)| (key.clone(), last.value.0)).collect()
    }

    /// The last value of a key at hand.
    #[must_use]
    pub fn last_value(&self, key: &str) -> Option<f64> {
        self.last_values.get(key).map(|last| last.value.0)
    }

    /// When any rank of the attempt `training`, whose workers train, last made a step.
    #[must_use]
    pub fn last_advance(&self, training: Option<u32>) -> Option<Timestamp> {
        self.ranks.values().filter(|r| Some(r.attempt) == training).map(|r| r.last_advance).max()
    }

    /// Progress as it is shown at `now`. Only an attempt whose workers train can stall: `training`, if one does.
    #[must_use]
    pub fn view(&self, now: Timestamp, training: Option<u32>) -> ProgressView {
        let median = self.median_interval_ms();
        let advanced = self.last_advance(training);
        let patience = median.map(|ms| STALL_MIN.max(number::from_millis(ms).saturating_mul(STALL_FACTOR)));
        let stalled = matches!((advanced, patience), (Some(at), Some(patience)) if now.since(at) > patience);
        ProgressView {
            last_step: self.last_step(),
            last_report_ms: self.last_report(),
            last_advance_ms: advanced,
            median_step_interval_ms: median.map(number::float),
            stalled,
            stalled_since_ms: advanced.filter(|_| stalled),
            ranks: self
                .ranks
                .iter()
                .map(|(&rank, r)| RankView { rank, last_step: r.last_step, last_report_ms: r.last_report })
                .collect(),
        }
    }

    fn median_interval_ms(&self) -> Option<i64> {
        let mut sorted: Vec<i64> = self.intervals_ms.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_stands_still_is_stalled_and_recovers_by_itself() {
        let at = |s: i64| Timestamp::from_ms(1_800_000_000_000 + s * 1000);
        let mut progress = Progress::default();
        for s in 0..10 {
            progress.report(0, 0, s, at(2 * s));
        }
        assert_eq!(progress.view(at(18), Some(0)).median_step_interval_ms, Some(2000.0));
        assert!(!progress.view(at(18 + 20), Some(0)).stalled);
        progress.report(0, 0, 9, at(38));
        let stalled = progress.view(at(18 + 21), Some(0));
        assert!(stalled.stalled);
        assert_eq!(stalled.stalled_since_ms, Some(at(18)));
        assert_eq!(stalled.last_advance_ms, Some(at(18)));
        assert!(!progress.view(at(100), None).stalled, "nobody trains");
        assert!(!progress.view(at(100), Some(1)).stalled, "the next attempt has not reported yet");
        progress.report(0, 0, 10, at(40));
        assert!(!progress.view(at(41), Some(0)).stalled);
    }

    #[test]
    fn the_newest_attempt_wins_and_late_words_of_the_old_one_do_not() {
        let now = Timestamp::from_ms(1_800_000_000_000);
        let mut progress = Progress::default();
        progress.report(0, 1, 100, now);
        progress.value("loss", 0, 100, 0.1);
        progress.report(1, 0, 50, now);
        progress.value("loss", 1, 50, 0.3);
        progress.value("loss", 0, 101, 0.2);
        progress.report(0, 0, 120, now);
        assert_eq!(progress.last_step(), Some(50));
        assert_eq!(progress.last_metrics().get("loss"), Some(&MetricValue(0.3)));
    }
}
