//! Metrics: what a report may carry, and the points it becomes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    commands::check_time,
    keyed::Keyed,
    points::{Block, Column, count},
};
use crate::base::{ActorId, Invalid, Timestamp, limits, number};

/// A metric value: any 64-bit float. In JSON NaN and the infinities are the strings `"NaN"`, `"Infinity"` and
/// `"-Infinity"`, accepted in any case.
#[derive(Clone, Copy, Debug)]
pub struct MetricValue(pub f64);

impl PartialEq for MetricValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits() || (self.0.is_nan() && other.0.is_nan())
    }
}

impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_finite() => serializer.serialize_f64(x),
            x if x.is_nan() => serializer.serialize_str("NaN"),
            x if x > 0.0 => serializer.serialize_str("Infinity"),
            _ => serializer.serialize_str("-Infinity"),
        }
    }
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = MetricValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, true, false, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }
            fn visit_bool<E>(self, v: bool) -> Result<MetricValue, E> {
                Ok(MetricValue(f64::from(u8::from(v))))
            }
            fn visit_f64<E>(self, v: f64) -> Result<MetricValue, E> {
                Ok(MetricValue(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<MetricValue, E> {
                Ok(MetricValue(number::float(v)))
            }
            fn visit_u64<E>(self, v: u64) -> Result<MetricValue, E> {
                #[expect(
                    clippy::as_conversions,
                    reason = "the nearest float is what a metric of this size means"
                )]
                Ok(MetricValue(v as f64))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<MetricValue, E> {
                named(v).map(MetricValue).ok_or_else(|| E::invalid_value(de::Unexpected::Str(v), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl utoipa::PartialSchema for MetricValue {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::Number))
            .item(ObjectBuilder::new().schema_type(Type::String).enum_values(Some([
                "NaN",
                "Infinity",
                "-Infinity",
            ])))
            .description(Some("A 64-bit float; NaN and the infinities as strings."))
            .into()
    }
}

impl ToSchema for MetricValue {}

fn named(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "infinity" | "inf" | "+infinity" | "+inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Metrics of one writer. Either form or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportBatch {
    /// Who counts `seq`.
    pub writer: ActorId,
    /// The writer's own count of its batches, from 1: a number that was stored already is acknowledged and
    /// stores nothing.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Ordinal of the attempt.
    #[serde(default)]
    pub attempt: u32,
    /// World rank.
    #[serde(default)]
    pub rank: u32,
    /// Reports one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
    /// Reports as columns: the quick form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
}

/// One report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Step, from 0. A report that is alone in its batch may leave it out: it is the writer's report number `seq`, and
    /// its step is `seq - 1`.
    #[schema(minimum = 0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// When; the server's receipt time if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<Timestamp>,
    /// Values by key; nested objects are flattened with `/`.
    #[schema(value_type = Object)]
    pub metrics: Keyed<MetricValue>,
}

/// Reports as columns of equal length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Steps, from 0.
    pub step: Vec<u64>,
    /// Times; the server's receipt time if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<Vec<Timestamp>>,
    /// Values by key, as many as there are steps; nested objects are flattened with `/`.
    #[schema(value_type = Object)]
    pub metrics: Keyed<Vec<MetricValue>>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Stored {
    /// Its points, all of which are stored now.
    pub points: u64,
    /// Whether they were before.
    #[serde(default)]
    pub known: bool,
}

impl ReportBatch {
    /// The points of a batch: all of it, or none and the key that is wrong.
    ///
    /// # Errors
    /// The first thing that cannot be stored, by name.
    pub fn into_blocks(self, now: Timestamp) -> Result<Vec<Block>, Invalid> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut points = 0;
        let alone = self.reports.len() == 1;
        for (i, report) in self.reports.into_iter().enumerate() {
            points += report.metrics.len();
            check_count(points)?;
            let default_step = alone.then_some(self.seq.saturating_sub(1));
            report.put(default_step, now, &mut blocks).map_err(|e| e.within(&format!("reports[{i}]")))?;
        }
        if let Some(columns) = self.columns {
            let block = columns.into_block(points, now).map_err(|e| e.within("columns"))?;
            blocks.push(block);
        }
        if count(&blocks) == 0 {
            return Err(Invalid::rule(
                "reports",
                "a batch carries at least one metric, in reports or in columns",
            ));
        }
        Ok(blocks)
    }
}

impl Report {
    /// Appends it to the last block, or to a new one if that has other keys.
    fn put(self, default_step: Option<u64>, now: Timestamp, blocks: &mut Vec<Block>) -> Result<(), Invalid> {
        let Some(step) = self.step.or(default_step) else {
            return Err(Invalid::rule("step", "only a report that is alone in its batch needs none"));
        };
        let step = check_step(step)?;
        let time = self.time_ms.unwrap_or(now);
        check_time("time_ms", time, now)?;
        if self.metrics.is_empty() {
            return Ok(());
        }
        let has_these_keys = |block: &&mut Block| {
            let keys = block.columns.iter().map(|column| &column.key);
            keys.eq(self.metrics.iter().map(|(key, _)| key))
        };
        if let Some(block) = blocks.last_mut().filter(has_these_keys) {
            block.step.push(step);
            block.time.push(time);
            for (column, (_, MetricValue(x))) in block.columns.iter_mut().zip(self.metrics) {
                column.values.push(x);
            }
            return Ok(());
        }
        check_keys(&self.metrics)?;
        let column = |(key, MetricValue(x))| Column { key, values: vec![x] };
        let columns = self.metrics.into_iter().map(column).collect();
        blocks.push(Block { step: vec![step], time: vec![time], columns });
        Ok(())
    }
}

impl Columns {
    /// `before`: points of the batch that come before these.
    fn into_block(self, before: usize, now: Timestamp) -> Result<Block, Invalid> {
        let rows = self.step.len();
        let time = self.time_ms.unwrap_or_else(|| vec![now; rows]);
        if time.len() != rows {
            return Err(Invalid::rule("time_ms", format!("{} times for {rows} steps", time.len())));
        }
        for time in &time {
            check_time("time_ms", *time, now)?;
        }
        check_count(before.saturating_add(rows.saturating_mul(self.metrics.len())))?;
        let step: Vec<i64> = self.step.into_iter().map(check_step).collect::<Result<_, _>>()?;
        check_keys(&self.metrics)?;
        let mut columns = Vec::with_capacity(self.metrics.len());
        for (key, values) in self.metrics {
            if values.len() != rows {
                let message = format!("{} values for {rows} steps", values.len());
                return Err(Invalid::rule(format!("metrics.{key}"), message));
            }
            columns.push(Column { key, values: values.into_iter().map(|MetricValue(x)| x).collect() });
        }
        Ok(Block { step, time, columns })
    }
}

fn check_count(points: usize) -> Result<(), Invalid> {
    if points > limits::REPORT_POINTS {
        return Err(Invalid::over("reports", limits::REPORT_POINTS, "points in one request"));
    }
    Ok(())
}

fn check_keys<T>(metrics: &Keyed<T>) -> Result<(), Invalid> {
    if metrics.len() > limits::METRIC_KEYS {
        return Err(Invalid::over("metrics", limits::METRIC_KEYS, "metric keys"));
    }
    metrics.iter().try_for_each(|(key, _)| check_key(key))
}

/// A step as it is stored.
///
/// # Errors
/// When it is more than the store's integers hold.
pub fn check_step(step: u64) -> Result<i64, Invalid> {
    i64::try_from(step).map_err(|_| Invalid::rule("step", format!("a step is at most {}", i64::MAX)))
}

/// Checks a metric key.
///
/// # Errors
/// It must have 1 to 512 bytes of printable UTF-8.
pub fn check_key(key: &str) -> Result<(), Invalid> {
    let field =
        || format!("metrics.{}", key.chars().filter(|c| !c.is_control()).take(80).collect::<String>());
    if key.len() > limits::METRIC_KEY_BYTES {
        return Err(Invalid::over(field(), limits::METRIC_KEY_BYTES, "bytes in a metric key"));
    }
    if key.is_empty() || key.chars().any(char::is_control) {
        return Err(Invalid::rule(
            field(),
            "a metric key has at least one character and no control characters",
        ));
    }
    Ok(())
}

/// The metrics of one report with nested objects flattened by `/`.
///
/// # Errors
/// The first key whose value is not a number: nothing of the report is then stored.
pub fn flatten(metrics: Map<String, Value>) -> Result<Vec<(String, f64)>, Invalid> {
    fn walk(
        prefix: &str,
        members: Map<String, Value>,
        depth: usize,
        out: &mut Vec<(String, f64)>,
    ) -> Result<(), Invalid> {
        for (name, value) in members {
            let key = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let field = || format!("metrics.{}", key.chars().take(80).collect::<String>());
            check_key(&key)?;
            let value = match value {
                Value::Number(n) => n.as_f64().filter(|x| x.is_finite()).ok_or_else(|| {
                    Invalid::malformed(field(), "this number does not fit a 64-bit float; send \"Infinity\" if that is meant")
                })?,
                Value::Bool(b) => f64::from(u8::from(b)),
                Value::String(text) => named(&text).ok_or_else(|| {
                    Invalid::malformed(
                        field(),
                        "a metric is a number; of strings only \"NaN\", \"Infinity\" and \"-Infinity\" are taken",
                    )
                })?,
                Value::Object(inner) => {
                    if depth >= limits::METRIC_DEPTH {
                        return Err(Invalid::over(field(), limits::METRIC_DEPTH, "levels of nesting"));
                    }
                    walk(&key, inner, depth + 1, out)?;
                    continue;
                }
                Value::Null | Value::Array(_) => {
                    return Err(Invalid::malformed(field(), "a metric is one number, not a list and not null"));
                }
            };
            out.push((key, value));
        }
        Ok(())
    }
    let mut out = Vec::with_capacity(metrics.len());
    walk("", metrics, 1, &mut out)?;
    Ok(out)
}

/// What is known of one key of one run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MetricSummary {
    /// Key.
    pub key: String,
    /// Points stored, of all attempts and ranks.
    pub count: i64,
    /// Lowest step.
    pub first_step: i64,
    /// Highest step.
    pub last_step: i64,
    /// Value at the highest step of the newest attempt, of the lowest rank that reports it.
    pub last: MetricValue,
    /// Least value; none if all are NaN.
    pub min: Option<MetricValue>,
    /// Greatest value; none if all are NaN.
    pub max: Option<MetricValue>,
    /// How many are NaN.
    pub nan_count: i64,
    /// Time of that last value.
    pub last_time_ms: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn batch(json: Value) -> Result<Vec<Block>, Invalid> {
        let mut whole = serde_json::json!({"writer": "w", "seq": 5});
        whole.as_object_mut().unwrap().append(&mut json.as_object().unwrap().clone());
        serde_json::from_value::<ReportBatch>(whole).unwrap().into_blocks(NOW)
    }

    #[test]
    fn odd_floats_round_trip_in_json() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 1.0, f64::MAX, 0.1 + 0.2] {
            let json = serde_json::to_string(&MetricValue(x)).unwrap();
            assert_eq!(serde_json::from_str::<MetricValue>(&json).unwrap(), MetricValue(x), "{json}");
        }
        assert!(serde_json::from_str::<MetricValue>("1e400").is_err());
        assert!(serde_json::from_str::<MetricValue>("\"abc\"").is_err());
    }

    #[test]
    fn both_forms_give_the_same_points() {
        let a = batch(serde_json::json!({"reports": [
            {"step": 1, "time_ms": NOW, "metrics": {"train": {"loss": 0.5}, "ok": true}},
            {"step": 2, "time_ms": NOW, "metrics": {"train": {"loss": "nan"}, "ok": false}}]}))
        .unwrap();
        let b = batch(serde_json::json!({"columns": {"step": [1, 2], "time_ms": [NOW, NOW],
            "metrics": {"ok": [true, false], "train/loss": [0.5, "NaN"]}}}))
        .unwrap();
        let sorted = |blocks: Vec<Block>| {
            let [block] = <[Block; 1]>::try_from(blocks).unwrap();
            let mut columns: Vec<_> = block
                .columns
                .into_iter()
                .map(|c| (c.key, c.values.iter().map(|x| x.to_bits()).collect::<Vec<_>>()))
                .collect();
            columns.sort();
            (block.step, block.time, columns)
        };
        assert_eq!(sorted(a), sorted(b));
    }

    #[test]
    fn a_wrong_key_and_a_time_in_seconds_are_refused_by_name() {
        let refused = |report: Value| batch(serde_json::json!({"reports": [report]})).unwrap_err();
        let bell = refused(serde_json::json!({"metrics": {"a": {"b\u{7}": 1}}}));
        assert_eq!(bell.field, "reports[0].metrics.a/b");
        let long = refused(serde_json::json!({"metrics": {"k".repeat(513): 1}}));
        assert_eq!(long.limit, Some(512));
        let seconds = refused(serde_json::json!({"time_ms": 1_800_000_000, "metrics": {"a": 1}}));
        assert!(seconds.message.contains("milliseconds"));
    }

    #[test]
    fn of_equal_keys_the_later_counts_and_reports_with_the_same_keys_are_one_block() {
        let text = r#"{"writer": "w", "seq": 1, "reports": [
            {"step": 1, "metrics": {"x": 0, "a/b": 1, "a": {"b": 2}}},
            {"step": 2, "metrics": {"x": 3, "a": {"b": 4}}},
            {"step": 3, "metrics": {}},
            {"step": 4, "metrics": {"x": 5}}]}"#;
        let blocks = serde_json::from_str::<ReportBatch>(text).unwrap().into_blocks(NOW).unwrap();
        let [two, one] = <[Block; 2]>::try_from(blocks).unwrap();
        assert_eq!((two.step, one.step), (vec![1, 2], vec![4]));
        let columns: Vec<_> = two.columns.iter().map(|c| (&*c.key, c.values.as_slice())).collect();
        assert_eq!(columns, [("x", [0.0, 3.0].as_slice()), ("a/b", [2.0, 4.0].as_slice())]);
    }

    #[test]
    fn a_report_without_a_step_gets_the_number_of_its_batch() {
        let sole = batch(serde_json::json!({"reports": [{"metrics": {"a": 1}}]})).unwrap();
        assert_eq!(sole[0].step, [4]);
        let several =
            serde_json::json!({"reports": [{"step": 1, "metrics": {"a": 1}}, {"metrics": {"a": 1}}]});
        assert_eq!(batch(several).unwrap_err().field, "reports[1].step");
    }
}
