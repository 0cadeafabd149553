//! Logs: raw bytes of a rank's file, by range, from the end, or as they come. Never loaded whole.
//!
//! A log whose middle was left out (`base::log_limit`) has a hole. Offsets stay those of the file; what is not there is
//! not sent. A range and a tail are one stretch without a hole; the whole log, and one that is followed, pass over it.

use std::{fs::File, io, sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::{ApiBytes, ApiPath, ApiQuery, ControllerToken},
    problem::{AnyProblem, Problem, WriteProblem},
    router::Head,
};
use crate::{
    base::{
        Invalid, RunId, number,
        sparse::{hole_before, next_data, next_hole, read_data},
        tail::{Tail, last_lines_offset},
    },
    state::DataDir,
};

/// How often a followed log looks whether its run has ended.
const ENDED: Duration = Duration::from_millis(500);
/// Says where the part of the log ends that stands before the first byte sent, if that follows a hole.
const HOLE_START: &str = "x-log-hole-start";
/// Most lines that can be asked for from the end.
const TAIL_LINES: usize = 1_000_000;

/// The logs of a run.
#[derive(Serialize, ToSchema)]
pub(super) struct LogList {
    /// One entry for each rank of each attempt that has written one.
    logs: Vec<LogEntry>,
}

/// A log.
#[derive(Serialize, ToSchema)]
pub(super) struct LogEntry {
    /// Ordinal of the attempt.
    attempt: u32,
    /// World rank.
    rank: u32,
    /// Its size: where the next byte will stand. Less is there if its middle was left out (`--log-max-bytes`).
    size_bytes: u64,
    /// Where it is, relative to the head's address.
    url: String,
}

/// Which logs are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogsParams {
    /// Only those of the attempt with this ordinal, which is less work in a run of many.
    attempt: Option<u32>,
}

/// The logs of a run.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/logs", tag = "read", params(("run_id" = RunId, Path), LogsParams),
    responses((status = 200, body = inline(LogList)), AnyProblem))]
pub(super) async fn list_logs(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<LogsParams>,
) -> Result<Json<LogList>, Problem> {
    let sizes = head.state.attempt_sizes(&run, params.attempt).await?;
    let dir = head.state.data_dir().clone();
    let entry = move |attempt, rank| {
        let size_bytes = dir.open_beneath(&DataDir::log(&run, attempt, rank)).ok()?.metadata().ok()?.len();
        let url = format!("api/train/runs/{run}/logs/{attempt}/{rank}");
        Some(LogEntry { attempt, rank, size_bytes, url })
    };
    let logs = tokio::task::spawn_blocking(move || {
        let places = sizes.into_iter().flat_map(|(attempt, n)| (0..n).map(move |rank| (attempt, rank)));
        places.filter_map(|(attempt, rank)| entry(attempt, rank)).collect()
    });
    Ok(Json(LogList { logs: logs.await.map_err(|e| Problem::internal(&e.to_string()))? }))
}

/// Which part of a log is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParams {
    /// Only the last lines; never from before a hole, and long lines are cut.
    #[param(maximum = 1_000_000)]
    tail: Option<u32>,
    /// 1: go on as the log grows, until the run has ended.
    #[param(minimum = 0, maximum = 1)]
    follow: Option<u8>,
}

/// A rank's log, raw. `Range: bytes=a-b` gives a part; `x-log-offset` says where the first byte stands.
///
/// If the middle of the log was left out (`--log-max-bytes`), nothing is sent of it. Then the whole log comes without
/// `content-length`. A range that begins in what is missing is moved to the next byte that is there, and ends where the next
/// hole begins; `x-log-hole-start` says where the hole begins that the first byte sent follows, and so where the part before
/// it ends.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/logs/{attempt}/{rank}", tag = "read",
    params(("run_id" = RunId, Path), ("attempt" = u32, Path), ("rank" = u32, Path), LogParams),
    responses((status = 200, body = Vec<u8>, content_type = "text/plain"),
        (status = 206, body = Vec<u8>, content_type = "text/plain", description = "The range asked for."),
        (status = 416, body = Problem, content_type = "application/problem+json", description = "Beyond its end."),
        AnyProblem))]
pub(super) async fn read_log(
    State(head): State<Head>,
    ApiPath((run, attempt, rank)): ApiPath<(RunId, u32, u32)>,
    ApiQuery(params): ApiQuery<LogParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let follow = params.follow.unwrap_or(0) != 0;
    let Some(file) = opened(&head, &run, attempt, rank).await? else {
        if !follow {
            return Err(no_log(attempt, rank));
        }
        let tail = Tail::new(&head.state.data_dir().root().join(DataDir::log(&run, attempt, rank)), 0);
        return Ok(answer(StatusCode::OK, 0, None, following(head, run, tail)));
    };
    let Part { file, start, end, hole, shape, size } = Part::of(file, &params, &headers).await?;
    let status = if shape == Shape::Range { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if follow {
        let tail = Tail::of_file(file, start);
        return Ok(answer(StatusCode::OK, start, hole, following(head, run, tail)));
    }
    if shape == Shape::Stretches {
        return Ok(answer(status, start, hole, without_holes(file, start, end)));
    }
    let failed = |e: io::Error| Problem::internal(&format!("log {attempt}/{rank} of {run}: {e}"));
    let mut file = tokio::fs::File::from_std(file);
    file.seek(io::SeekFrom::Start(start)).await.map_err(failed)?;
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(end - start), 64 * 1024));
    let mut response = answer(status, start, hole, body);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(end - start));
    if shape == Shape::Range
        && let Ok(range) = HeaderValue::from_str(&format!("bytes {start}-{}/{size}", end.saturating_sub(1)))
    {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    Ok(response)
}

/// Where bytes of a log belong.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AppendParams {
    /// Where the first of these bytes stands in the log.
    offset: u64,
}

/// A log after something was appended.
#[derive(Serialize, ToSchema)]
pub(super) struct GrownLog {
    /// Its size; the next bytes begin there.
    size_bytes: u64,
}

/// Appends to the log of a worker that runs on another host than the head. Bytes that are there already are not written
/// again, so that a request can be repeated.
#[utoipa::path(put, path = "/api/train/runs/{run_id}/logs/{attempt}/{rank}", tag = "controller",
    params(("run_id" = RunId, Path), ("attempt" = u32, Path), ("rank" = u32, Path), AppendParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = inline(GrownLog)), AnyProblem, WriteProblem))]
pub(super) async fn append_log(
    State(head): State<Head>,
    ApiPath((run, attempt, rank)): ApiPath<(RunId, u32, u32)>,
    ControllerToken(token): ControllerToken,
    ApiQuery(params): ApiQuery<AppendParams>,
    ApiBytes(bytes): ApiBytes,
) -> Result<Json<GrownLog>, Problem> {
    let size_bytes = head.state.append_log(&run, &token, (attempt, rank), params.offset, bytes).await?;
    Ok(Json(GrownLog { size_bytes }))
}

/// Which bytes of a log are sent.
struct Part {
    file: File,
    start: u64,
    /// The byte after the last.
    end: u64,
    /// Where the hole begins that ends at the start, if one does.
    hole: Option<u64>,
    shape: Shape,
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One stretch, up to the end.
    Stretch,
    /// With holes in it.
    Stretches,
    /// The stretch that a range asked for.
    Range,
}

/// What is asked for.
enum Wanted {
    Whole,
    Tail(usize),
    Range(String),
}

impl Part {
    async fn of(file: File, params: &LogParams, headers: &HeaderMap) -> Result<Self, Problem> {
        let tail = params.tail.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        if tail.is_some_and(|n| n > TAIL_LINES) {
            return Err(Invalid::over("tail", TAIL_LINES, "lines").into());
        }
        let range = headers.get(header::RANGE).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let wanted = match (tail, range) {
            (Some(lines), _) => Wanted::Tail(lines),
            (None, Some(range)) => Wanted::Range(range),
            (None, None) => Wanted::Whole,
        };
        let looked = tokio::task::spawn_blocking(move || Self::look(file, wanted));
        let looked = looked.await.map_err(io::Error::other).flatten();
        looked.map_err(|e| Problem::internal(&format!("a log cannot be read: {e}")))?.map_err(|size| {
            let detail = format!("the log has {size} bytes");
            Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "beyond-end", "Beyond its end", detail)
        })
    }

    /// Blocks. The inner error is the size that is exceeded.
    fn look(file: File, wanted: Wanted) -> io::Result<Result<Self, u64>> {
        let size = file.metadata()?.len();
        // A range that is not understood is ignored, as RFC 9110 has it.
        let range = match &wanted {
            Wanted::Range(range) => parse_range(range, size),
            Wanted::Whole | Wanted::Tail(_) => None,
        };
        let (start, end, shape) = match (range, wanted) {
            (Some((from, to)), _) => {
                let Some(start) = next_data(&file, from)?.filter(|start| *start < size) else {
                    return Ok(Err(size));
                };
                // One that lies in a hole as a whole is moved as a whole.
                let to = if start < to { to } else { start.saturating_add(to - from) };
                (start, to.min(next_hole(&file, start)?).min(size), Shape::Range)
            }
            (None, Wanted::Tail(lines)) => (last_lines_offset(&file, lines)?, size, Shape::Stretch),
            (None, Wanted::Whole | Wanted::Range(_)) => {
                let start = next_data(&file, 0)?.unwrap_or(size);
                let is_one = start >= size || next_hole(&file, start)? >= size;
                (start, size, if is_one { Shape::Stretch } else { Shape::Stretches })
            }
        };
        let hole = hole_before(&file, start)?;
        Ok(Ok(Self { file, start, end: end.max(start), hole, shape, size }))
    }
}

/// First byte and the byte after the last of `bytes=a-b`, `bytes=a-` or `bytes=-n`.
fn parse_range(range: &str, size: u64) -> Option<(u64, u64)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    match (from.trim(), to.trim()) {
        ("", suffix) => Some((size.saturating_sub(suffix.parse().ok()?), size)),
        (from, "") => Some((from.parse().ok()?, size)),
        (from, to) => {
            let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then(|| (from, to.saturating_add(1)))
        }
    }
}

/// The log of a rank, open.
pub(super) async fn open(head: &Head, run: &RunId, attempt: u32, rank: u32) -> Result<File, Problem> {
    opened(head, run, attempt, rank).await?.ok_or_else(|| no_log(attempt, rank))
}

/// The log of a rank, open; none if that rank has written nothing yet.
async fn opened(head: &Head, run: &RunId, attempt: u32, rank: u32) -> Result<Option<File>, Problem> {
    let sizes = head.state.attempt_sizes(run, Some(attempt)).await?;
    if !sizes.iter().any(|(_, n)| rank < *n) {
        return Err(no_log(attempt, rank));
    }
    let (dir, path) = (head.state.data_dir().clone(), DataDir::log(run, attempt, rank));
    let opened = tokio::task::spawn_blocking(move || dir.open_beneath(&path));
    match opened.await.map_err(io::Error::other).flatten() {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Problem::internal(&format!("log {attempt}/{rank} of {run}: {e}"))),
    }
}

fn no_log(attempt: u32, rank: u32) -> Problem {
    let detail = format!("rank {rank} of attempt {attempt} has no log here");
    Problem::new(StatusCode::NOT_FOUND, "log-not-found", "No such log", detail)
}

fn answer(status: StatusCode, offset: u64, hole: Option<u64>, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // Text for a browser to show, which `nosniff` keeps it from taking for anything else.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert("x-log-offset", HeaderValue::from(offset));
    if let Some(hole) = hole {
        headers.insert(HOLE_START, HeaderValue::from(hole));
    }
    response
}

/// What is there between two offsets.
fn without_holes(file: File, start: u64, end: u64) -> Body {
    let next = |(file, at, end): (Arc<File>, u64, u64)| async move {
        if at >= end {
            return None;
        }
        let source = Arc::clone(&file);
        let read = tokio::task::spawn_blocking(move || read_data(&source, at)).await;
        match read.map_err(io::Error::other).flatten() {
            Ok((from, bytes)) if from < end && !bytes.is_empty() => {
                let left = usize::try_from(end - from).unwrap_or(usize::MAX);
                let bytes = bytes.slice(..left.min(bytes.len()));
                let next = from + number::size(bytes.len());
                Some((Ok::<Bytes, io::Error>(bytes), (file, next, end)))
            }
            Ok(_) => None,
            // The last thing that is sent.
            Err(e) => Some((Err(e), (file, end, end))),
        }
    };
    Body::from_stream(stream::unfold((Arc::new(file), start, end), next))
}

/// The log as it grows, until its run has ended and all of it was sent.
fn following(head: Head, run: RunId, tail: Tail) -> Body {
    let next = |(head, run, mut tail): (Head, RunId, Tail)| async move {
        loop {
            let live = head.state.is_live(&run).unwrap_or(false);
            match tail.available().await {
                Ok(bytes) if !bytes.is_empty() => {
                    return Some((Ok::<Bytes, io::Error>(bytes), (head, run, tail)));
                }
                Ok(_) if live => {}
                Ok(_) => return None,
                Err(e) => return Some((Err(e), (head, run, tail))),
            }
            tokio::select! {
                _ = tokio::time::timeout(ENDED, tail.changed()) => {}
                () = head.stop.cancelled() => return None,
            }
        }
    };
    Body::from_stream(stream::unfold((head, run, tail), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_rfc_9110_has_them() {
        assert_eq!(parse_range("bytes=0-9", 100), Some((0, 10)));
        assert_eq!(parse_range("bytes=90-", 100), Some((90, 100)));
        assert_eq!(parse_range("bytes=-10", 100), Some((90, 100)));
        assert_eq!(parse_range("bytes=-1000", 100), Some((0, 100)));
        for bad in ["bytes=9-0", "bytes=a-b", "lines=0-1", "bytes=", "bytes=-"] {
            assert_eq!(parse_range(bad, 100), None, "{bad}");
        }
    }
}
