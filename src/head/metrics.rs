//! Metrics: what there is, series of it, and series of many runs.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::HeaderMap,
    response::Response,
};
use futures_util::{StreamExt, stream};
use tracing::warn;

use super::{
    extract::{ApiJson, ApiPath, ApiQuery},
    formats::{self, Format},
    problem::{AnyProblem, BodyProblem, Problem},
    router::Head,
    series_params::{CompareBody, SeriesParams},
};
use crate::{
    base::{Invalid, RunId},
    model::series::{Overview, RunSeries, SeriesAnswer},
    state::Comparison,
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

/// Series of a run, as columns. The range is taken first, then points are left out.
///
/// Four formats, by `format` or `Accept`: JSON; `application/octet-stream`, columns that a browser uses as they are
/// (docs/metrics.md describes the bytes); an Arrow IPC stream; CSV. The last two have a row for each point, with its key,
/// attempt and rank.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/metrics/series", tag = "read",
    params(("run_id" = RunId, Path), SeriesParams),
    responses((status = 200, content(
        (inline(SeriesAnswer) = "application/json"),
        (Vec<u8> = "application/octet-stream"),
        (Vec<u8> = "application/vnd.apache.arrow.stream"),
        (String = "text/csv"),
    )), AnyProblem))]
pub(super) async fn show_series(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(mut params): ApiQuery<SeriesParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let format = params.format.take().unwrap_or_else(|| Format::accepted(&headers));
    let answer = head.state.series(&run, &params.request()?).await?;
    formats::series(answer, format).await
}

/// Series of many runs on one grid of buckets, so that their curves line up. What does not exist is refused before the
/// answer begins; then the runs follow one by one, in the order asked for: in JSON a line each, or a frame each of the binary
/// layout. An answer that breaks off has no proper end.
#[utoipa::path(post, path = "/api/train/metrics/query", tag = "read", request_body = CompareBody,
    responses((status = 200, content(
        (RunSeries = "application/x-ndjson"),
        (Vec<u8> = "application/octet-stream"),
    )), AnyProblem, BodyProblem))]
pub(super) async fn query_metrics(
    State(head): State<Head>,
    headers: HeaderMap,
    ApiJson(mut body): ApiJson<CompareBody>,
) -> Result<Response, Problem> {
    let format = body.format.take().unwrap_or_else(|| Format::accepted(&headers));
    if !matches!(format, Format::Json | Format::Binary) {
        return Err(Invalid::rule("format", "several runs are answered as json or binary").into());
    }
    let comparison = head.state.compare(body.request()?).await?;
    let runs = stream::unfold(comparison, move |mut comparison| async move {
        let run = next_run(&mut comparison, format).await?;
        Some((run, comparison))
    });
    // What was asked for first can be drawn while the rest is read.
    let body = Body::from_stream(runs.map(|run| {
        run.map_err(|problem| {
            warn!("an answer about many runs broke off: {}", problem.detail);
            std::io::Error::other(problem.detail)
        })
    }));
    Ok(formats::response(format.of_many(), body))
}

async fn next_run(comparison: &mut Comparison, format: Format) -> Option<Result<Bytes, Problem>> {
    let (run_id, series) = match comparison.next().await? {
        Ok(run) => run,
        Err(e) => return Some(Err(e.into())),
    };
    Some(formats::run(RunSeries { run_id, series }, format).await)
}
