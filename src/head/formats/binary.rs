//! Columns as they stand in memory, for programs that use them without reading them one by one. docs/metrics.md describes
//! the layout.

use std::mem::size_of;

use serde::Serialize;

use super::Unwritable;
use crate::{
    base::{RunId, number},
    model::series::{RunSeries, Series, SeriesAnswer},
};

const MAGIC: [u8; 4] = *b"THS1";
/// What every column begins at a multiple of, bytes.
const ALIGNMENT: usize = 8;
/// The magic, the header's length and the frame's length.
const FIXED: usize = 16;
/// Bytes of a point: its step, time and value, and the ordinal of its attempt.
const POINT: usize = 3 * size_of::<f64>() + size_of::<u32>();

/// The header of a frame; its columns follow.
#[derive(Serialize)]
struct Header<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<&'a RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<bool>,
    series: Vec<Described<'a>>,
}

/// A series without its columns, and where they are.
#[derive(Serialize)]
struct Described<'a> {
    key: &'a str,
    attempt: &'a serde_json::Value,
    rank: u32,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<i64>,
    points: usize,
    offsets: Offsets,
}

/// Where columns begin, bytes behind the header.
#[derive(Clone, Copy, Serialize)]
struct Offsets {
    step: usize,
    time_ms: usize,
    value: usize,
    attempt_at: usize,
}

/// The frame of an answer about one run.
pub(super) fn answer(answer: &SeriesAnswer) -> Result<Vec<u8>, Unwritable> {
    let SeriesAnswer { series, cursor, whole } = answer;
    let (described, length) = describe(series);
    let header = Header { run_id: None, cursor: Some(*cursor), whole: Some(*whole), series: described };
    frame(&header, series, length)
}

/// The frame of one run among several.
pub(super) fn run(run: &RunSeries) -> Result<Vec<u8>, Unwritable> {
    let RunSeries { run_id, series } = run;
    let (described, length) = describe(series);
    frame(&Header { run_id: Some(run_id), cursor: None, whole: None, series: described }, series, length)
}

/// The series, and how many bytes their columns take.
fn describe(series: &[Series]) -> (Vec<Described<'_>>, usize) {
    let mut end = 0;
    let described = series
        .iter()
        .map(|one| {
            let points = one.step.len();
            let column = |n: usize| end + n * points * size_of::<f64>();
            let offsets =
                Offsets { step: column(0), time_ms: column(1), value: column(2), attempt_at: column(3) };
            end = (end + points * POINT).next_multiple_of(ALIGNMENT);
            Described {
                key: &one.key,
                attempt: &one.attempt,
                rank: one.rank,
                count: one.count,
                next_step: one.next_step,
                points,
                offsets,
            }
        })
        .collect();
    (described, end)
}

fn frame(header: &Header<'_>, series: &[Series], columns: usize) -> Result<Vec<u8>, Unwritable> {
    let unwritable = |e: &dyn std::fmt::Display| Unwritable(e.to_string());
    let mut header = serde_json::to_vec(header).map_err(|e| unwritable(&e))?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let length = FIXED + header.len() + columns;
    let mut out = Vec::with_capacity(length);
    out.extend(MAGIC);
    out.extend(u32::try_from(header.len()).map_err(|e| unwritable(&e))?.to_le_bytes());
    out.extend(number::size(length).to_le_bytes());
    out.extend(header);
    for one in series {
        let Series { key: _, attempt: _, rank: _, count: _, next_step: _, step, time_ms, value, attempt_at } =
            one;
        out.extend(step.iter().flat_map(|step| number::float(*step).to_le_bytes()));
        out.extend(time_ms.iter().flat_map(|ms| number::float(*ms).to_le_bytes()));
        out.extend(value.iter().flat_map(|value| value.0.to_le_bytes()));
        out.extend(attempt_at.iter().flat_map(|attempt| attempt.to_le_bytes()));
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    }
    Ok(out)
}
