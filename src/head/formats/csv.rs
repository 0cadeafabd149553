//! CSV by RFC 4180: a line for each point. NaN and the infinities are written as in JSON.

use std::{borrow::Cow, ops::Range};

use super::{Rows, Unwritable};
use crate::model::{metrics::MetricValue, series::Series};

/// Writes CSV.
#[derive(Debug)]
pub(crate) struct Csv;

impl Rows for Csv {
    fn begin() -> Result<(Self, Vec<u8>), Unwritable> {
        Ok((Self, b"key,attempt,rank,step,time_ms,value\r\n".to_vec()))
    }

    fn piece(&mut self, series: &Series, points: Range<usize>) -> Result<Vec<u8>, Unwritable> {
        let key = quoted(&series.key);
        let mut out = Vec::with_capacity(points.len() * (key.len() + 48));
        let columns = series.step.iter().zip(&series.time_ms).zip(&series.value).zip(&series.attempt_at);
        for (((step, time_ms), value), attempt) in columns.skip(points.start).take(points.len()) {
            line(&mut out, &key, *attempt, series.rank, *step, *time_ms, *value)
                .map_err(|e| Unwritable(e.to_string()))?;
        }
        Ok(out)
    }

    fn end(self) -> Result<Vec<u8>, Unwritable> {
        Ok(Vec::new())
    }
}

fn line(
    out: &mut Vec<u8>,
    key: &str,
    attempt: u32,
    rank: u32,
    step: i64,
    time_ms: i64,
    value: MetricValue,
) -> std::io::Result<()> {
    use std::io::Write;
    write!(out, "{key},{attempt},{rank},{step},{time_ms},")?;
    match value.0 {
        // The shortest digits that are read back as the same float.
        x if x.is_finite() => serde_json::to_writer(&mut *out, &x)?,
        x if x.is_nan() => out.extend(b"NaN"),
        x if x > 0.0 => out.extend(b"Infinity"),
        _ => out.extend(b"-Infinity"),
    }
    out.extend(b"\r\n");
    Ok(())
}

/// A field, in quotes if it needs them.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}
