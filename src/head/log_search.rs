//! Searching in a log, some of it at a time: the head reads so that a browser need not. What is found, and what an error
//! looks like, is `base::log_search`'s.

use std::time::{Duration, Instant};

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::{ApiPath, ApiQuery},
    logs,
    problem::{AnyProblem, Problem},
    router::Head,
};
use crate::base::{
    Invalid, RunId, limits,
    log_search::{Bounds, Found, Match, Pattern, search},
};

/// Bytes that are looked at for one answer.
const BYTES: u64 = 64 << 20;
/// How long an answer may take, about.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is looked for in a log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchParams {
    /// Lines that hold this text, whatever the case of its ASCII letters, also with colours and other sequences for a terminal
    /// between its characters. It is a text, not a pattern.
    #[param(min_length = 1, max_length = 1000)]
    q: Option<String>,
    /// True for the lines where an error begins, in place of `q`: Python's `Traceback (most recent call last)`; words like
    /// error, exception, fatal, panicked, killed, OOM, segfault; names like `RuntimeError` or `CUDA_ERROR_OUT_OF_MEMORY`. Not
    /// quantities and names (`val_error: 0.1`, `error=0.03`, `error.log`), and not `0 errors` or `no error`.
    #[serde(default)]
    errors: bool,
    /// Offset of the byte to go on at, which is taken for the first of a line: the answer before has it as `next_from`.
    from: Option<u64>,
    /// How many lines.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// What was found in a log.
#[derive(Serialize, ToSchema)]
pub(super) struct LogMatches {
    /// The lines, in order, each once however often it matches.
    matches: Vec<LogMatch>,
    /// Where to go on; null if the end was reached.
    next_from: Option<u64>,
    /// How far it was looked, for showing progress: everything before this offset.
    scanned_to: u64,
    /// Where a later search goes on once the log has grown: `next_from`, or else where the last line begins if that has no end
    /// yet. Such a line is among the matches if it matches already, and comes again; replace the matches from there on.
    resume_from: u64,
    /// The log's size.
    size_bytes: u64,
}

/// A line that was found.
#[derive(Serialize, ToSchema)]
pub(super) struct LogMatch {
    /// Offset of its first byte.
    offset: u64,
    /// The line without its end, in UTF-8 (other bytes are replaced); of a long one 500 bytes around the match.
    text: String,
}

/// Lines of a rank's log that hold a text, or where an error begins: give `q` or `errors=true`.
///
/// An answer comes after 64 MiB or about a second at the latest: then `next_from` says where to go on, whether or not anything
/// was found. What was left out of the middle of a log (`--log-max-bytes`) is passed over. A line longer than 64 KiB is looked
/// at in pieces of that length, each as a line of its own.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/logs/{attempt}/{rank}/search", tag = "read",
    params(("run_id" = RunId, Path), ("attempt" = u32, Path), ("rank" = u32, Path), SearchParams),
    responses((status = 200, body = inline(LogMatches)), AnyProblem))]
pub(super) async fn search_log(
    State(head): State<Head>,
    ApiPath((run, attempt, rank)): ApiPath<(RunId, u32, u32)>,
    ApiQuery(params): ApiQuery<SearchParams>,
) -> Result<Json<LogMatches>, Problem> {
    let matches = params.limit()?;
    let file = logs::open(&head, &run, attempt, rank).await?;
    let found = tokio::task::spawn_blocking(move || {
        let pattern = params.pattern()?;
        let bounds = Bounds { matches, bytes: BYTES, until: Instant::now() + PATIENCE };
        let found = search(&file, &pattern, params.from.unwrap_or(0), bounds);
        found.map_err(|e| Problem::internal(&format!("a log cannot be read: {e}")))
    });
    let found = found.await.map_err(|e| Problem::internal(&e.to_string())).flatten();
    let Found { matches, next, scanned_to, resume, size } = found?;
    let matches = matches.into_iter().map(|Match { offset, text }| LogMatch { offset, text });
    let matches = matches.collect();
    Ok(Json(LogMatches { matches, next_from: next, scanned_to, resume_from: resume, size_bytes: size }))
}

impl SearchParams {
    fn pattern(&self) -> Result<Pattern, Invalid> {
        match (&self.q, self.errors) {
            (Some(text), false) => Pattern::text(text),
            (None, true) => Ok(Pattern::Errors),
            _ => Err(Invalid::rule("q", "say what to look for: either q or errors=true")),
        }
    }

    fn limit(&self) -> Result<usize, Invalid> {
        let limit = self.limit.unwrap_or(limits::DEFAULT_LOG_MATCHES);
        let most = usize::try_from(limits::LOG_MATCHES).unwrap_or(usize::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if limit == 0 || limit > most {
            return Err(Invalid::over("limit", most, "lines, and at least one,"));
        }
        Ok(limit)
    }
}
