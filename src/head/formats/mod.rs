//! How series are written.

mod arrow;
mod binary;
mod csv;

use std::{iter, ops::Range};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use self::{arrow::ArrowStream, csv::Csv};
use super::problem::Problem;
use crate::model::series::{RunSeries, Series, SeriesAnswer};

/// Points of which writing takes longer than others who wait for the same thread should notice.
const AT_ONCE: usize = 20_000;
/// Points of one piece of an answer that is written in pieces.
const PIECE: usize = 16 * 1024;

const NDJSON: &str = "application/x-ndjson";

/// A way to write series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Format {
    /// Columns in JSON; NaN and the infinities as strings.
    Json,
    /// Columns of floats, 8-byte aligned.
    Binary,
    /// An Arrow IPC stream.
    Arrow,
    /// CSV with a header line.
    Csv,
}

impl Format {
    const ALL: [Self; 4] = [Self::Json, Self::Binary, Self::Arrow, Self::Csv];

    /// The first format that the `Accept` header names; JSON if it names none of them.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let types = accept.flat_map(|value| value.split(',')).map(|range| {
            let essence = range.split(';').next().unwrap_or_default();
            essence.trim().to_ascii_lowercase()
        });
        let format = |essence: String| match essence.as_str() {
            NDJSON => Some(Self::Json),
            _ => Self::ALL.into_iter().find(|format| format.content_type() == essence),
        };
        types.filter_map(format).next().unwrap_or(Self::Json)
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Binary => "application/octet-stream",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Csv => "text/csv",
        }
    }

    /// The content type of several answers behind each other.
    pub(super) const fn of_many(self) -> &'static str {
        match self {
            Self::Json => NDJSON,
            Self::Binary | Self::Arrow | Self::Csv => self.content_type(),
        }
    }
}

/// An answer of a content type.
pub(super) fn response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The series of a run.
pub(super) async fn series(answer: SeriesAnswer, format: Format) -> Result<Response, Problem> {
    let points = points(&answer.series);
    let body = match format {
        Format::Json => written(points, move || json(&answer)).await?.into(),
        Format::Binary => written(points, move || binary::answer(&answer)).await?.into(),
        // Rows are longer than columns: they are written as they are sent.
        Format::Arrow => Body::from_stream(stream::iter(rows::<ArrowStream>(answer.series)?)),
        Format::Csv => Body::from_stream(stream::iter(rows::<Csv>(answer.series)?)),
    };
    Ok(response(format.content_type(), body))
}

/// The series of one run of several: a line of JSON, or a frame.
pub(super) async fn run(run: RunSeries, format: Format) -> Result<Bytes, Problem> {
    let points = points(&run.series);
    let line = move || match format {
        Format::Binary => binary::run(&run),
        Format::Json | Format::Arrow | Format::Csv => json(&run).map(|mut line| {
            line.push(b'\n');
            line
        }),
    };
    written(points, line).await.map(Bytes::from)
}

fn points(series: &[Series]) -> usize {
    series.iter().map(|series| series.step.len()).sum()
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Unwritable> {
    serde_json::to_vec(value).map_err(|e| Unwritable(e.to_string()))
}

/// Writes at once what is short, and the rest where it holds up nobody.
async fn written(
    points: usize,
    write: impl FnOnce() -> Result<Vec<u8>, Unwritable> + Send + 'static,
) -> Result<Vec<u8>, Problem> {
    let result = if points <= AT_ONCE {
        write()
    } else {
        let task = tokio::task::spawn_blocking(write);
        task.await.unwrap_or_else(|e| Err(Unwritable(e.to_string())))
    };
    result.map_err(Problem::from)
}

/// Series that could not be written, which is our own fault.
#[derive(Debug, thiserror::Error)]
#[error("a series cannot be written: {0}")]
pub(crate) struct Unwritable(pub(crate) String);

impl From<Unwritable> for Problem {
    fn from(e: Unwritable) -> Self {
        Self::internal(&e.to_string())
    }
}

/// A format with a row for each point, which can be written piece by piece.
pub(crate) trait Rows: Sized {
    /// What stands before the first row.
    fn begin() -> Result<(Self, Vec<u8>), Unwritable>;
    /// Rows of some points of a series.
    fn piece(&mut self, series: &Series, points: Range<usize>) -> Result<Vec<u8>, Unwritable>;
    /// What stands behind the last one.
    fn end(self) -> Result<Vec<u8>, Unwritable>;
}

/// Series as rows, a piece at a time.
fn rows<R: Rows>(
    series: Vec<Series>,
) -> Result<impl Iterator<Item = Result<Vec<u8>, Unwritable>>, Unwritable> {
    let (writer, head) = R::begin()?;
    let pieces = |(i, one): (usize, &Series)| pieces(one.step.len()).map(move |range| (i, range));
    let mut pieces = series.iter().enumerate().flat_map(pieces).collect::<Vec<_>>().into_iter();
    let mut writer = Some(writer);
    let rest = iter::from_fn(move || match pieces.next() {
        Some((i, range)) => Some(writer.as_mut()?.piece(series.get(i)?, range)),
        None => writer.take().map(R::end),
    });
    Ok(iter::once(Ok(head)).chain(rest))
}

/// Ranges of so many points, none of them long.
pub(crate) fn pieces(points: usize) -> impl Iterator<Item = Range<usize>> {
    (0..points).step_by(PIECE).map(move |from| from..points.min(from + PIECE))
}
