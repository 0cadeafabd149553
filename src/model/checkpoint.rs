//! Checkpoints: what the ledger keeps of each, what may follow what, and which of them are kept.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    closed_enum::closed_enum,
    commands::check_time,
    metrics::{MetricValue, check_step},
    names::check_name,
    refusal::Refusal,
};
use crate::base::{Invalid, Timestamp, limits};

closed_enum! {
    /// Where a checkpoint is.
    CheckpointState {
        /// Its shards are on their way; nobody may use it.
        Staging = "STAGING",
        /// Whole: its manifest is written.
        Committed = "COMMITTED",
        /// Its validation waits or runs.
        Validating = "VALIDATING",
        /// Its validation ended well.
        Validated = "VALIDATED",
        /// Its validation failed. Its bytes are intact.
        ValidationFailed = "VALIDATION_FAILED",
        /// Its validation took too long. Its bytes are intact.
        ValidationTimeout = "VALIDATION_TIMEOUT",
        /// A size or a hash is not that of its manifest.
        Corrupt = "CORRUPT",
        /// Somebody removed it.
        Missing = "MISSING",
        /// Retention removed it.
        Deleted = "DELETED",
    }
}

impl CheckpointState {
    /// Whether training may go on from it: its bytes are believed to be there and intact.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        matches!(
            self,
            Self::Committed
                | Self::Validating
                | Self::Validated
                | Self::ValidationFailed
                | Self::ValidationTimeout
        )
    }

    /// The state after a change to `to`: the one function through which it changes.
    ///
    /// # Errors
    /// [`Refusal::IllegalTransition`] for a pair that the table does not have. A change to itself is none.
    pub fn to(self, to: Self) -> Result<Self, Refusal> {
        use CheckpointState::{Committed, Corrupt, Deleted, Missing, Staging, Validating};
        let legal = self == to
            || match self {
                Staging => matches!(to, Committed | Deleted),
                // The end of a validation may be the first that is heard of it.
                Committed | Validating => !matches!(to, Staging | Committed),
                Self::Validated | Self::ValidationFailed | Self::ValidationTimeout => {
                    matches!(to, Validating | Corrupt | Missing | Deleted)
                }
                Corrupt => matches!(to, Missing | Deleted),
                Missing | Deleted => false,
            };
        if legal { Ok(to) } else { Err(Refusal::IllegalTransition { from: self.as_str(), to: to.as_str() }) }
    }
}

/// A checkpoint of a run, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Which of the run's checkpoints, counted over all of its attempts, from 0.
    pub number: u64,
    /// What is known of it.
    pub record: RecordCheckpoint,
    /// Somebody wants it kept, whatever retention says.
    pub pinned: bool,
}

/// A checkpoint as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointView {
    /// Which of the run's checkpoints, counted over all of its attempts, from 0.
    pub number: u64,
    /// Somebody wants it kept.
    pub pinned: bool,
    /// It is the best of those that can be used.
    pub best: bool,
    /// Training would go on from it.
    pub latest: bool,
    /// What retention makes of it, and why.
    pub fate: Fate,
    /// What is known of it.
    #[serde(flatten)]
    pub record: RecordCheckpoint,
}

/// What a controller says of a checkpoint. What it is does not change; where it stands does, and what is measured of it
/// may be added to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordCheckpoint {
    /// Where it is, from COMMITTED on.
    pub state: CheckpointState,
    /// One sentence about that.
    #[serde(default)]
    pub status_detail: Option<String>,
    /// The step that it was taken at.
    #[schema(minimum = 0)]
    pub step: u64,
    /// Ordinal of the attempt that wrote it.
    pub attempt: u32,
    /// Where it lies: a directory, or an address such as `s3://bucket/runs/…`.
    #[schema(max_length = 4096)]
    pub uri: String,
    /// The ranks whose shards it has.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    pub ranks: Vec<u32>,
    /// How many files it has, without its manifest.
    #[serde(default)]
    pub num_files: u64,
    /// Their bytes.
    #[serde(default)]
    pub size_bytes: u64,
    /// What was reported with it, and what its validation measured; at most 1,000 values.
    #[serde(default)]
    pub metrics: BTreeMap<String, MetricValue>,
    /// When it was whole.
    pub committed_at_ms: Timestamp,
}

impl RecordCheckpoint {
    /// Checks every rule of a checkpoint's record.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        if self.state == CheckpointState::Staging {
            return Err(Invalid::rule("state", "a checkpoint is recorded once it is COMMITTED"));
        }
        check_step(self.step)?;
        check_time("committed_at_ms", self.committed_at_ms, now)?;
        if self.uri.is_empty() {
            return Err(Invalid::rule("uri", "a checkpoint lies somewhere"));
        }
        if self.uri.chars().count() > limits::URI_CHARS {
            return Err(Invalid::over("uri", limits::URI_CHARS, "characters"));
        }
        if self.ranks.len() > limits::WORKERS {
            return Err(Invalid::over("ranks", limits::WORKERS, "ranks"));
        }
        if self.metrics.len() > limits::CHECKPOINT_METRICS {
            return Err(Invalid::over("metrics", limits::CHECKPOINT_METRICS, "values"));
        }
        self.metrics.keys().try_for_each(|key| check_name("metrics", key))
    }

    /// What is known after `next` was said: the same checkpoint, where it stands now.
    ///
    /// # Errors
    /// When it is another checkpoint, or does not go there.
    pub fn followed_by(&self, next: Self) -> Result<Self, Refusal> {
        let is_same =
            |a: &Self| (a.step, a.attempt, a.uri.clone(), a.num_files, a.size_bytes, a.committed_at_ms);
        if is_same(self) != is_same(&next) {
            return Err(Invalid::rule("", "another checkpoint has this number").into());
        }
        let state = self.state.to(next.state)?;
        Ok(Self { state, ..next })
    }
}

closed_enum! {
    /// Which end of a score is the better one.
    ScoreOrder {
        /// The higher the better.
        Max = "max",
        /// The lower the better.
        Min = "min",
    }
}

/// Which checkpoints are kept. A run says it in its settings, as `checkpoints`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// How many of the best are kept; all if none.
    pub num_to_keep: Option<u32>,
    /// The metric that says which is better; the newer one if none.
    pub score_attribute: Option<String>,
    /// Which end of it.
    pub score_order: ScoreOrder,
}

/// The member of a run's settings that says which of its checkpoints are kept.
pub const RETENTION: &str = "checkpoints";

impl Default for Retention {
    fn default() -> Self {
        Self { num_to_keep: None, score_attribute: None, score_order: ScoreOrder::Max }
    }
}

closed_enum! {
    /// What is to become of one checkpoint, and why.
    Fate {
        /// It is among the best that are kept.
        Best = "BEST",
        /// Training would go on from it.
        Latest = "LATEST",
        /// Somebody wants it kept.
        Pinned = "PINNED",
        /// Its validation may still make it the best.
        Pending = "PENDING",
        /// Retention removes it.
        Goes = "GOES",
        /// It is not there any more.
        Gone = "GONE",
    }
}

/// How the checkpoints of a run stand to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Usable ones, the best first.
    pub by_score: Vec<u64>,
    /// The one that training would go on from: the newest usable one.
    pub latest: Option<u64>,
    /// What becomes of each.
    pub fates: BTreeMap<u64, Fate>,
}

impl Ranking {
    /// The best one.
    #[must_use]
    pub fn best(&self) -> Option<u64> {
        self.by_score.first().copied()
    }

    /// A checkpoint with how it stands to the others.
    #[must_use]
    pub fn show(&self, checkpoint: Checkpoint) -> CheckpointView {
        let Checkpoint { number, record, pinned } = checkpoint;
        CheckpointView {
            number,
            pinned,
            best: self.best() == Some(number),
            latest: self.latest == Some(number),
            fate: self.fates.get(&number).copied().unwrap_or(Fate::Gone),
            record,
        }
    }

    /// Those that retention removes, oldest first.
    pub fn goes(&self) -> impl Iterator<Item = u64> {
        self.fates.iter().filter(|(_, fate)| **fate == Fate::Goes).map(|(number, _)| *number)
    }
}

impl Retention {
    /// What a run's settings say; all are kept where they say nothing that is understood.
    #[must_use]
    pub fn of_settings(settings: &Map<String, Value>) -> Self {
        let said = settings.get(RETENTION).cloned();
        said.and_then(|said| serde_json::from_value(said).ok()).unwrap_or_default()
    }

    /// Puts the checkpoints of a run in order and says what becomes of each. A score that is NaN or missing is the worst
    /// in both orders; of two that are equal the newer is better. However bad its score, what training would go on from
    /// stays, what is pinned stays, and what is being validated stays.
    pub fn rank<'a>(&self, all: impl IntoIterator<Item = &'a Checkpoint>) -> Ranking {
        let all: Vec<&Checkpoint> = all.into_iter().collect();
        let mut usable: Vec<&Checkpoint> =
            all.iter().copied().filter(|c| c.record.state.is_usable()).collect();
        usable.sort_by(|a, b| self.better(b, a));
        let latest = usable.iter().map(|c| c.number).max();
        let kept = self.num_to_keep.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let best: BTreeSet<u64> = usable.iter().take(kept).map(|c| c.number).collect();
        let fate = |c: &Checkpoint| match c.record.state {
            CheckpointState::Missing | CheckpointState::Deleted => Fate::Gone,
            _ if best.contains(&c.number) => Fate::Best,
            _ if latest == Some(c.number) => Fate::Latest,
            _ if c.pinned => Fate::Pinned,
            CheckpointState::Validating | CheckpointState::Staging => Fate::Pending,
            // One that is broken is kept with all others where nothing is removed.
            _ if self.num_to_keep.is_none() => Fate::Best,
            _ => Fate::Goes,
        };
        Ranking {
            by_score: usable.iter().map(|c| c.number).collect(),
            latest,
            fates: all.iter().map(|c| (c.number, fate(c))).collect(),
        }
    }

    /// Greater is better.
    fn better(&self, a: &Checkpoint, b: &Checkpoint) -> Ordering {
        let by_age = a.number.cmp(&b.number);
        let Some(key) = &self.score_attribute else { return by_age };
        let score = |c: &Checkpoint| c.record.metrics.get(key).map(|v| v.0).filter(|x| !x.is_nan());
        let by_score = match (score(a), score(b)) {
            (Some(a), Some(b)) => match self.score_order {
                ScoreOrder::Max => a.total_cmp(&b),
                ScoreOrder::Min => b.total_cmp(&a),
            },
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        by_score.then(by_age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(number: u64, score: Option<f64>) -> Checkpoint {
        let record = RecordCheckpoint {
            state: CheckpointState::Committed,
            status_detail: None,
            step: number,
            attempt: 0,
            uri: format!("/c/{number}"),
            ranks: vec![0],
            num_files: 1,
            size_bytes: 1,
            metrics: score.map(|x| ("a".to_owned(), MetricValue(x))).into_iter().collect(),
            committed_at_ms: Timestamp::from_ms(1_800_000_000_000),
        };
        Checkpoint { number, record, pinned: false }
    }

    fn keep(n: u32, order: ScoreOrder) -> Retention {
        Retention { num_to_keep: Some(n), score_attribute: Some("a".into()), score_order: order }
    }

    #[test]
    fn the_best_and_the_one_to_go_on_from_are_kept_apart() {
        let all = [checkpoint(0, Some(0.9)), checkpoint(1, Some(0.8))];
        let ranking = keep(1, ScoreOrder::Max).rank(&all);
        assert_eq!((ranking.best(), ranking.latest), (Some(0), Some(1)));
        assert_eq!(ranking.fates, [(0, Fate::Best), (1, Fate::Latest)].into());
        let more = [all[0].clone(), all[1].clone(), checkpoint(2, Some(0.7))];
        assert_eq!(keep(1, ScoreOrder::Max).rank(&more).goes().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn nan_and_missing_scores_are_worst_in_both_orders_and_of_equals_the_newer_is_better() {
        let all = [
            checkpoint(0, Some(f64::NAN)),
            checkpoint(1, None),
            checkpoint(2, Some(1.0)),
            checkpoint(3, Some(1.0)),
            checkpoint(4, Some(f64::INFINITY)),
        ];
        assert_eq!(keep(1, ScoreOrder::Max).rank(&all).by_score, [4, 3, 2, 1, 0]);
        assert_eq!(keep(1, ScoreOrder::Min).rank(&all).by_score, [3, 2, 4, 1, 0]);
        let newest = Retention { num_to_keep: Some(2), ..Retention::default() }.rank(&all);
        assert_eq!(newest.goes().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_pinned_or_being_validated_stays_and_what_is_broken_goes() {
        let mut all: Vec<Checkpoint> = (0..5).map(|n| checkpoint(n, Some(0.0))).collect();
        all[0].pinned = true;
        all[1].record.state = CheckpointState::Validating;
        all[2].record.state = CheckpointState::Missing;
        all[3].record.state = CheckpointState::Corrupt;
        let fates = keep(1, ScoreOrder::Max).rank(&all).fates;
        let expected = [Fate::Pinned, Fate::Pending, Fate::Gone, Fate::Goes, Fate::Best];
        assert_eq!(fates.into_values().collect::<Vec<_>>(), expected);
        assert_eq!(Retention::default().rank(&all).goes().count(), 0);
    }

    #[test]
    fn a_record_stays_the_same_checkpoint_and_does_not_come_back() {
        let known = checkpoint(3, Some(0.5)).record;
        let to = |state| RecordCheckpoint { state, ..known.clone() };
        let validated = known.followed_by(to(CheckpointState::Validated)).unwrap();
        assert_eq!(validated.state, CheckpointState::Validated);
        assert_eq!(validated.followed_by(validated.clone()).unwrap(), validated, "said twice");
        let deleted = validated.followed_by(to(CheckpointState::Deleted)).unwrap();
        assert!(deleted.followed_by(to(CheckpointState::Committed)).is_err());
        assert!(known.followed_by(RecordCheckpoint { step: 4, ..known.clone() }).is_err());
    }
}
