//! What can be asked of series, in a query string and in a body.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Visitor};
use utoipa::{IntoParams, ToSchema};

use super::formats::Format;
use crate::{
    base::{Invalid, RunId, limits},
    model::series::{AttemptChoice, Axis, CompareRequest, Mode, SeriesRequest, Span},
};

/// Which series are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SeriesParams {
    /// Key; repeat it for several.
    #[serde(default)]
    #[param(max_items = 1000)]
    key: Vec<String>,
    /// Points of each series at the most, and a few more at its ends. Default 1,000; of all keys together at the most
    /// 4,000,000.
    #[param(minimum = 1, maximum = 1_000_000)]
    max_points: Option<u32>,
    /// First step.
    #[param(minimum = 0)]
    from_step: Option<u64>,
    /// Last step.
    #[param(minimum = 0)]
    to_step: Option<u64>,
    /// Earliest time, UNIX ms.
    from_ms: Option<i64>,
    /// Latest time, UNIX ms.
    to_ms: Option<i64>,
    /// How points are left out (default `minmax`).
    #[param(inline)]
    mode: Option<Mode>,
    /// What the buckets divide (default `step`).
    #[param(inline)]
    x: Option<Axis>,
    /// `merged` (default): for each step the newest attempt that reached it; `all`: each attempt as a series; or the
    /// ordinal of one.
    #[param(value_type = Option<String>)]
    attempt: Option<Word>,
    /// World rank (default 0), or `all`.
    #[param(value_type = Option<String>)]
    rank: Option<Word>,
    /// The `cursor` of an earlier answer to the same question: only what is new since.
    since: Option<i64>,
    /// How it is written; wins over the `Accept` header.
    #[param(inline)]
    pub(super) format: Option<Format>,
}

/// Which series of which runs are asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareBody {
    /// The runs.
    #[schema(min_items = 1, max_items = 1000)]
    runs: Vec<RunId>,
    /// The keys of each.
    #[schema(min_items = 1, max_items = 1000)]
    keys: Vec<String>,
    /// Points of each series at the most, and a few more at its ends. Default 1,000; of all keys of a run together at the
    /// most 4,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    max_points: Option<u32>,
    /// First step.
    #[schema(minimum = 0)]
    from_step: Option<u64>,
    /// Last step.
    #[schema(minimum = 0)]
    to_step: Option<u64>,
    /// Earliest time, UNIX ms.
    from_ms: Option<i64>,
    /// Latest time, UNIX ms.
    to_ms: Option<i64>,
    /// How points are left out (default `minmax`).
    #[schema(inline)]
    mode: Option<Mode>,
    /// What the buckets divide (default `step`).
    #[schema(inline)]
    x: Option<Axis>,
    /// `merged` (default), `all`, or the ordinal of one.
    #[schema(value_type = Option<String>)]
    attempt: Option<Word>,
    /// World rank (default 0), or `all`.
    #[schema(value_type = Option<String>)]
    rank: Option<Word>,
    /// `json` or `binary`; wins over the `Accept` header.
    #[schema(inline)]
    pub(super) format: Option<Format>,
}

impl SeriesParams {
    /// What is asked for.
    ///
    /// # Errors
    /// The first field that cannot be.
    pub(super) fn request(self) -> Result<SeriesRequest, Invalid> {
        let Self {
            key: keys,
            max_points,
            from_step,
            to_step,
            from_ms,
            to_ms,
            mode,
            x,
            attempt,
            rank,
            since,
            format: _,
        } = self;
        check_size("key", keys.len(), limits::SERIES_KEYS, "keys in one request")?;
        Ok(SeriesRequest {
            max_points: points(max_points, keys.len())?,
            keys,
            rank: which_rank(rank)?,
            attempt: which_attempt(attempt)?,
            span: span((from_step, to_step), (from_ms, to_ms)),
            mode: mode.unwrap_or(Mode::Minmax),
            axis: x.unwrap_or(Axis::Step),
            since,
        })
    }
}

impl CompareBody {
    /// What is asked for.
    ///
    /// # Errors
    /// The first field that cannot be.
    pub(super) fn request(self) -> Result<CompareRequest, Invalid> {
        let Self {
            runs,
            keys,
            max_points,
            from_step,
            to_step,
            from_ms,
            to_ms,
            mode,
            x,
            attempt,
            rank,
            format: _,
        } = self;
        check_size("runs", runs.len(), limits::COMPARED_RUNS, "runs in one request")?;
        check_size("keys", keys.len(), limits::SERIES_KEYS, "keys in one request")?;
        for (field, len) in [("runs", runs.len()), ("keys", keys.len())] {
            if len == 0 {
                return Err(Invalid::rule(field, "name at least one"));
            }
        }
        let series = SeriesRequest {
            max_points: points(max_points, keys.len())?,
            keys,
            rank: which_rank(rank)?,
            attempt: which_attempt(attempt)?,
            span: span((from_step, to_step), (from_ms, to_ms)),
            mode: mode.unwrap_or(Mode::Minmax),
            axis: x.unwrap_or(Axis::Step),
            since: None,
        };
        Ok(CompareRequest { runs, series })
    }
}

fn check_size(field: &str, len: usize, limit: usize, what: &str) -> Result<(), Invalid> {
    if len > limit { Err(Invalid::over(field, limit, what)) } else { Ok(()) }
}

fn points(asked: Option<u32>, keys: usize) -> Result<usize, Invalid> {
    let whole = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let points = whole(asked.unwrap_or(limits::DEFAULT_SERIES_POINTS));
    let limit = whole(limits::SERIES_POINTS);
    if points == 0 || points > limit {
        return Err(Invalid::over("max_points", limit, "points, and at least one,"));
    }
    check_size(
        "max_points",
        points.saturating_mul(keys),
        limits::ANSWER_POINTS,
        "points of all keys together",
    )?;
    Ok(points)
}

fn span(steps: (Option<u64>, Option<u64>), times: (Option<i64>, Option<i64>)) -> Span {
    let step = |asked: Option<u64>, default| asked.map_or(default, |s| i64::try_from(s).unwrap_or(i64::MAX));
    Span {
        from_step: step(steps.0, Span::ALL.from_step),
        to_step: step(steps.1, Span::ALL.to_step),
        from_ms: times.0.unwrap_or(Span::ALL.from_ms),
        to_ms: times.1.unwrap_or(Span::ALL.to_ms),
    }
}

fn which_rank(asked: Option<Word>) -> Result<Option<u32>, Invalid> {
    match asked {
        None => Ok(Some(0)),
        Some(Word(word)) if word == "all" => Ok(None),
        Some(word) => word.ordinal("rank", "all").map(Some),
    }
}

fn which_attempt(asked: Option<Word>) -> Result<AttemptChoice, Invalid> {
    match asked {
        None => Ok(AttemptChoice::Merged),
        Some(Word(word)) if word == "merged" => Ok(AttemptChoice::Merged),
        Some(Word(word)) if word == "all" => Ok(AttemptChoice::All),
        Some(word) => word.ordinal("attempt", "merged, all").map(AttemptChoice::One),
    }
}

/// A word or a number, which JSON tells apart and a query string does not.
#[derive(Debug)]
struct Word(String);

impl Word {
    fn ordinal(&self, field: &str, others: &str) -> Result<u32, Invalid> {
        let Self(word) = self;
        word.parse()
            .map_err(|_| Invalid::malformed(field, format!("{word:?} is neither {others} nor a number")))
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a whole number")
            }
            fn visit_str<E>(self, word: &str) -> Result<Word, E> {
                Ok(Word(word.to_owned()))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Word, E> {
                Ok(Word(n.to_string()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
