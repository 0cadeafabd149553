//! Metrics: what there is, and series of it.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    extract::{ApiPath, ApiQuery},
    problem::{AnyProblem, Problem},
    router::Head,
};
use crate::{
    base::{Invalid, RunId, limits},
    model::series::{AttemptChoice, Axis, Mode, Overview, SeriesAnswer, SeriesRequest, Span},
};

/// The metrics of a run: for each key how many points, which steps, last, least and greatest value.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/metrics", tag = "read", params(("run_id" = RunId, Path)),
    responses((status = 200, body = inline(Overview)), AnyProblem))]
pub(super) async fn list_metrics(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
) -> Result<Json<Overview>, Problem> {
    Ok(Json(head.state.metrics(&run).await?))
}

/// Which series is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SeriesParams {
    /// Key; repeat it for several.
    #[serde(default)]
    #[param(max_items = 1000)]
    key: Vec<String>,
    /// Points of each series at the most; of more, the least and greatest of each bucket are kept. Default 1,000.
    #[param(minimum = 1, maximum = 1_000_000)]
    max_points: Option<u32>,
    /// First step.
    #[param(minimum = 0)]
    from_step: Option<u64>,
    /// Last step.
    #[param(minimum = 0)]
    to_step: Option<u64>,
    /// `merged` (default): for each step the newest attempt that reached it; `all`: each attempt as a series; or the
    /// ordinal of one.
    attempt: Option<String>,
    /// World rank (default 0), or `all`.
    rank: Option<String>,
}

/// Series of a run, as columns. The range is taken first, then points are left out.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/metrics/series", tag = "read",
    params(("run_id" = RunId, Path), SeriesParams), responses((status = 200, body = inline(SeriesAnswer)), AnyProblem))]
pub(super) async fn show_series(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<SeriesParams>,
) -> Result<Json<SeriesAnswer>, Problem> {
    Ok(Json(head.state.series(&run, &params.parse()?).await?))
}

impl SeriesParams {
    fn parse(self) -> Result<SeriesRequest, Invalid> {
        const KEYS: usize = 1000;
        if self.key.len() > KEYS {
            return Err(Invalid::over("key", KEYS, "keys in one request"));
        }
        let max_points = self.max_points.unwrap_or(limits::DEFAULT_SERIES_POINTS);
        if max_points == 0 || max_points > limits::SERIES_POINTS {
            let limit = usize::try_from(limits::SERIES_POINTS).unwrap_or(usize::MAX);
            return Err(Invalid::over("max_points", limit, "points, and at least one,"));
        }
        let ordinal = |field: &str, text: &str, others: &str| {
            text.parse()
                .map_err(|_| Invalid::malformed(field, format!("{text:?} is neither {others} nor a number")))
        };
        let step =
            |asked: Option<u64>, default| asked.map_or(default, |s| i64::try_from(s).unwrap_or(i64::MAX));
        Ok(SeriesRequest {
            keys: self.key,
            rank: match self.rank.as_deref() {
                None => Some(0),
                Some("all") => None,
                Some(rank) => Some(ordinal("rank", rank, "all")?),
            },
            attempt: match self.attempt.as_deref() {
                None | Some("merged") => AttemptChoice::Merged,
                Some("all") => AttemptChoice::All,
                Some(attempt) => AttemptChoice::One(ordinal("attempt", attempt, "merged, all")?),
            },
            span: Span {
                from_step: step(self.from_step, 0),
                to_step: step(self.to_step, i64::MAX),
                ..Span::ALL
            },
            max_points: usize::try_from(max_points).unwrap_or(usize::MAX),
            mode: Mode::Minmax,
            axis: Axis::Step,
            since: None,
        })
    }
}
