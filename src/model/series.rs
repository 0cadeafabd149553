//! What can be asked of metrics, and what is answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    closed_enum::closed_enum,
    metrics::{MetricSummary, MetricValue},
    track::Sample,
};
use crate::base::RunId;

closed_enum! {
    /// How a series with more points than were asked for is thinned out.
    Mode {
        /// Of each bucket the least and the greatest value with their own steps: no spike is lost.
        Minmax = "minmax",
        /// Largest triangles of three buckets: the shape of the curve with fewer points.
        Lttb = "lttb",
        /// The mean of each bucket, at its first point.
        Mean = "mean",
        /// Not at all: the first points of the range, and where the next ones begin.
        Raw = "raw",
    }
}

closed_enum! {
    /// What the buckets divide.
    Axis {
        /// Steps.
        Step = "step",
        /// Times.
        Time = "time",
    }
}

impl Axis {
    /// Where a point stands on it.
    #[must_use]
    pub fn position(self, sample: &Sample) -> i64 {
        match self {
            Self::Step => sample.step,
            Self::Time => sample.time_ms,
        }
    }
}

/// Which part of a series is asked for, ends included. Both conditions hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First step.
    pub from_step: i64,
    /// Last step.
    pub to_step: i64,
    /// Earliest time, UNIX ms.
    pub from_ms: i64,
    /// Latest time, UNIX ms.
    pub to_ms: i64,
}

impl Span {
    /// Everything.
    pub const ALL: Self = Self { from_step: 0, to_step: i64::MAX, from_ms: i64::MIN, to_ms: i64::MAX };

    /// Whether a point lies in it.
    #[must_use]
    pub fn has(&self, sample: &Sample) -> bool {
        (self.from_step..=self.to_step).contains(&sample.step)
            && (self.from_ms..=self.to_ms).contains(&sample.time_ms)
    }

    /// What of it lies between two steps, ends included.
    #[must_use]
    pub fn between(self, first: i64, last: i64) -> Self {
        Self { from_step: self.from_step.max(first), to_step: self.to_step.min(last), ..self }
    }
}

/// Which attempts a series shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptChoice {
    /// One curve: for each step the newest attempt that reached it, which is one whose first and last step of this key
    /// enclose it.
    Merged,
    /// Each attempt as a series of its own.
    All,
    /// One attempt.
    One(u32),
}

/// Which series are asked for. The range is taken first, then points are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesRequest {
    /// Keys, at least one.
    pub keys: Vec<String>,
    /// One rank, or all.
    pub rank: Option<u32>,
    /// Which attempts.
    pub attempt: AttemptChoice,
    /// Which part.
    pub span: Span,
    /// Points of each series at the most.
    pub max_points: usize,
    /// How points are left out.
    pub mode: Mode,
    /// What the buckets divide.
    pub axis: Axis,
    /// Only what came after this; see [`SeriesAnswer::cursor`].
    pub since: Option<i64>,
}

impl SeriesRequest {
    /// Buckets of which no more points come than are asked for: a mean is one point, a least and a greatest value two.
    #[must_use]
    pub fn buckets(&self) -> usize {
        let buckets = if self.mode == Mode::Mean { self.max_points } else { self.max_points / 2 };
        buckets.max(2)
    }
}

/// One series, as columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Key.
    pub key: String,
    /// `merged`, or the ordinal of the attempt.
    #[schema(value_type = Object)]
    pub attempt: serde_json::Value,
    /// World rank.
    pub rank: u32,
    /// How many points stand behind it.
    pub count: u64,
    /// With `mode=raw`, the step at which the points begin that did not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<i64>,
    /// Steps.
    pub step: Vec<i64>,
    /// Times.
    pub time_ms: Vec<i64>,
    /// Values.
    pub value: Vec<MetricValue>,
    /// Ordinal of the attempt that each point is of.
    pub attempt_at: Vec<u32>,
}

/// Series of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesAnswer {
    /// The series, by key in the order asked for, then by rank and attempt.
    pub series: Vec<Series>,
    /// Position in what this run reported: handed back as `since`, it gives what is new. It holds over restarts of the
    /// head.
    pub cursor: i64,
    /// Whether `series` is all of the range and not only what came after `since`: so much is new, or so long ago was it,
    /// that the chart is drawn anew.
    pub whole: bool,
}

/// Series of one run among several.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RunSeries {
    /// The run.
    pub run_id: RunId,
    /// Its series, by key in the order asked for, then by rank and attempt.
    pub series: Vec<Series>,
}

/// What was reported by attempts and then thrown away by a restart from an earlier step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lost {
    /// Steps that were done again.
    pub steps: u64,
    /// How long the attempts that lost them had worked at them, ms.
    pub ms: u64,
    /// The attempts that lost something, oldest first.
    pub attempts: Vec<LostOfAttempt>,
}

/// What one attempt reported that was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LostOfAttempt {
    /// Its ordinal.
    pub attempt: u32,
    /// Steps that were done again.
    pub steps: u64,
    /// How long it had worked at them, ms.
    pub ms: u64,
}

impl Lost {
    /// Adds what an attempt lost.
    pub fn add(&mut self, lost: LostOfAttempt) {
        self.steps += lost.steps;
        self.ms += lost.ms;
        self.attempts.push(lost);
    }
}

/// The metrics of a run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Overview {
    /// One entry a key, by name.
    pub metrics: Vec<MetricSummary>,
    /// What restarts threw away.
    pub lost: Lost,
    /// Position in what this run reported, as in the answer to a request for series.
    pub cursor: i64,
}

/// Series of several runs on one grid of buckets, so that their curves line up.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareRequest {
    /// The runs.
    pub runs: Vec<RunId>,
    /// What of each.
    pub series: SeriesRequest,
}
