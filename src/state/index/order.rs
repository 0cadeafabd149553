//! The orders of the list, and the tokens that say where a page ended.

use std::{cmp::Reverse, str::FromStr, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{
    base::{Invalid, RunId, Timestamp},
    model::RunStatus,
};

/// What the list is ordered by. Runs that have no such value come last, whatever the direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// When they started.
    #[default]
    StartTime,
    /// Their names, whatever the case.
    Name,
    /// How long they took; live runs have no value.
    Duration,
    /// STARTED, FINISHED, ERRORED, ABORTED.
    Status,
    /// Their experiments, whatever the case.
    Experiment,
    /// How many attempts they have had.
    Attempts,
    /// How often workers or the controller failed.
    Failures,
    /// How many workers the newest attempt has; one that has none yet has no value.
    Workers,
    /// The leading rank's last step.
    Step,
    /// Their jobs, whatever the case.
    Job,
    /// Their ids.
    Id,
    /// The last value of this metric; NaN is no value.
    Metric(String),
    /// What they have of this setting, `a/b` for `b` of `a`: numbers by their size, before texts, whatever their case.
    Setting(String),
}

/// Which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    #[default]
    Descending,
}

/// An order of the list: `-start_time`, `name`, `metric:loss` …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// By what.
    pub key: SortKey,
    /// Which way.
    pub direction: Direction,
}

impl FromStr for Sort {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (direction, word) = match text.strip_prefix('-') {
            Some(rest) => (Direction::Descending, rest),
            None => (Direction::Ascending, text),
        };
        let key = match word.split_once(':') {
            None => match word {
                "start_time" => SortKey::StartTime,
                "name" => SortKey::Name,
                "duration" => SortKey::Duration,
                "status" => SortKey::Status,
                "experiment" => SortKey::Experiment,
                "attempts" => SortKey::Attempts,
                "failures" => SortKey::Failures,
                "workers" => SortKey::Workers,
                "step" => SortKey::Step,
                "job" => SortKey::Job,
                "id" => SortKey::Id,
                _ => return Err(unknown()),
            },
            Some(("metric", key)) if !key.is_empty() => SortKey::Metric(key.to_owned()),
            Some(("setting", key)) if !key.is_empty() => SortKey::Setting(key.to_owned()),
            Some(_) => return Err(unknown()),
        };
        Ok(Self { key, direction })
    }
}

fn unknown() -> Invalid {
    const RULE: &str = "sort by start_time, name, experiment, status, duration, attempts, failures, workers, step, \
        job, id, metric:KEY or setting:KEY, each with or without -";
    Invalid::rule("sort", RULE)
}

impl Sort {
    /// The metric that it orders by.
    pub(super) fn metric(&self) -> Option<&str> {
        match &self.key {
            SortKey::Metric(key) => Some(key),
            _ => None,
        }
    }

    /// The setting that it orders by.
    pub(crate) fn setting(&self) -> Option<&str> {
        match &self.key {
            SortKey::Setting(key) => Some(key),
            _ => None,
        }
    }
}

impl std::fmt::Display for Sort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.direction == Direction::Descending {
            f.write_str("-")?;
        }
        match &self.key {
            SortKey::StartTime => f.write_str("start_time"),
            SortKey::Name => f.write_str("name"),
            SortKey::Duration => f.write_str("duration"),
            SortKey::Status => f.write_str("status"),
            SortKey::Experiment => f.write_str("experiment"),
            SortKey::Attempts => f.write_str("attempts"),
            SortKey::Failures => f.write_str("failures"),
            SortKey::Workers => f.write_str("workers"),
            SortKey::Step => f.write_str("step"),
            SortKey::Job => f.write_str("job"),
            SortKey::Id => f.write_str("id"),
            SortKey::Metric(key) => write!(f, "metric:{key}"),
            SortKey::Setting(key) => write!(f, "setting:{key}"),
        }
    }
}

/// The place of a run by its start: newest first, of equal starts the greater id (made later) first.
pub(super) type Start = (Reverse<Timestamp>, Reverse<RunId>);

/// A value that runs are ordered by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Value {
    /// Ordered by the start alone.
    Start,
    Name(Box<str>),
    Duration(i64),
    Status(usize),
    /// The name of an experiment or job, in lower case.
    Group(Arc<str>),
    Count(u32),
    Step(i64),
    /// A number, mapped so that the order of integers is the order of the numbers.
    Number(i64),
    /// The beginning of a text, in lower case. After all numbers.
    Text(Box<str>),
}

/// Of so many characters of a text the order is made; all of them would make long page tokens.
const TEXT_CHARS: usize = 64;

impl Value {
    pub(super) fn of_status(status: RunStatus) -> Self {
        Self::Status(RunStatus::ALL.iter().position(|s| *s == status).unwrap_or(0))
    }

    /// None for null.
    pub(super) fn of_setting(value: &Json) -> Option<Self> {
        let text = match value {
            Json::Null => return None,
            Json::Number(number) => return number.as_f64().and_then(Self::of_number),
            Json::String(text) => text.clone(),
            Json::Bool(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
        };
        let begin: String = text.chars().take(TEXT_CHARS).collect();
        Some(Self::Text(begin.to_lowercase().into()))
    }

    /// None for NaN.
    pub(super) fn of_number(value: f64) -> Option<Self> {
        // IEEE 754 totalOrder: of negative numbers all but the sign is turned over. -0 is 0.
        let bits = (value + 0.0).to_bits().cast_signed();
        (!value.is_nan()).then_some(Self::Number(if bits < 0 { bits ^ i64::MAX } else { bits }))
    }
}

/// Where a page ended. Opaque outside: it goes back as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    pub(super) sort: Sort,
    /// None among the runs that have no value.
    pub(super) value: Option<Value>,
    pub(super) start: Start,
}

impl PageToken {
    /// Reads a token that an earlier answer gave.
    ///
    /// # Errors
    /// When it is not one.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(bad_token)
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (sort, value, start, id): (String, Option<Value>, i64, RunId) =
            serde_json::from_slice(&bytes).ok()?;
        let sort: Sort = sort.parse().ok()?;
        let fits = match (&sort.key, &value) {
            (SortKey::StartTime, Some(Value::Start))
            | (SortKey::Name, Some(Value::Name(_)))
            | (SortKey::Status, Some(Value::Status(_)))
            | (SortKey::Duration, Some(Value::Duration(_)) | None)
            | (SortKey::Id, Some(Value::Name(_)))
            | (SortKey::Experiment | SortKey::Job, Some(Value::Group(_)) | None)
            | (SortKey::Attempts | SortKey::Failures, Some(Value::Count(_)))
            | (SortKey::Workers, Some(Value::Count(_)) | None)
            | (SortKey::Step, Some(Value::Step(_)) | None)
            | (SortKey::Metric(_), Some(Value::Number(_)) | None)
            | (SortKey::Setting(_), Some(Value::Number(_) | Value::Text(_)) | None) => true,
            (
                SortKey::StartTime
                | SortKey::Name
                | SortKey::Status
                | SortKey::Duration
                | SortKey::Experiment
                | SortKey::Attempts
                | SortKey::Failures
                | SortKey::Workers
                | SortKey::Step
                | SortKey::Job
                | SortKey::Id
                | SortKey::Metric(_)
                | SortKey::Setting(_),
                _,
            ) => false,
        };
        fits.then(|| Self { sort, value, start: (Reverse(Timestamp::from_ms(start)), Reverse(id)) })
    }
}

pub(super) fn bad_token() -> Invalid {
    Invalid::malformed(
        "page_token",
        "take the next_page_token of the answer before, with the same sort, unchanged",
    )
}

impl std::fmt::Display for PageToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sort, value, start: (Reverse(start), Reverse(id)) } = self;
        // Strings and integers always are JSON.
        let json = serde_json::to_vec(&(sort.to_string(), value, start.as_ms(), id)).unwrap_or_default();
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_is_written() {
        for text in [
            "-start_time",
            "start_time",
            "name",
            "-duration",
            "status",
            "experiment",
            "-attempts",
            "failures",
            "-workers",
            "step",
            "job",
            "-id",
            "-metric:val:loss",
            "setting:optimizer/lr",
        ] {
            assert_eq!(text.parse::<Sort>().unwrap().to_string(), text);
        }
        for bad in ["", "-", "names", "metric:", "--name", "metric", "value:x", "setting:"] {
            assert!(bad.parse::<Sort>().is_err(), "{bad}");
        }
        assert_eq!(Sort::default().to_string(), "-start_time");
    }

    #[test]
    fn numbers_keep_their_order() {
        let all = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY];
        let values: Vec<Value> = all.iter().map(|x| Value::of_number(*x).unwrap()).collect();
        assert!(values.is_sorted() && values.windows(2).all(|w| w[0] != w[1]));
        assert_eq!(Value::of_number(-0.0), Value::of_number(0.0));
        assert_eq!(Value::of_number(f64::NAN), None);
    }

    #[test]
    fn a_token_comes_back_whole_and_nothing_else_is_one() {
        let start = (Reverse(Timestamp::from_ms(5)), Reverse(RunId::parse("r.1").unwrap()));
        let token = PageToken { sort: "name".parse().unwrap(), value: Some(Value::Name("ä".into())), start };
        assert_eq!(PageToken::parse(&token.to_string()), Ok(token.clone()));
        let other = PageToken { sort: Sort::default(), ..token };
        for bad in ["x", "", "1.r", &other.to_string()] {
            assert!(PageToken::parse(bad).is_err(), "{bad}");
        }
    }
}
