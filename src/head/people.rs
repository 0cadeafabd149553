//! What people may ask of a run: to stop, other annotations, the trash and back.

use axum::{Json, extract::State, http::StatusCode, response::Response};

use super::{
    extract::{ApiJson, ApiPath},
    problem::{AnyProblem, Problem, WriteProblem},
    router::Head,
    runs::json,
};
use crate::{
    base::RunId,
    model::{commands::StopRun, people::AnnotateRun, retention::CollectGarbage, view::TrainRun},
    state::Cleared,
};

/// Asks a run to stop. Its controller is told with its next heartbeat; if it never confirms, the run is ABORTED after
/// the grace and a lease.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/stop", tag = "people", params(("run_id" = RunId, Path)),
    request_body = StopRun, responses((status = 202, body = TrainRun), AnyProblem, WriteProblem))]
pub(super) async fn stop_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiJson(body): ApiJson<StopRun>,
) -> Result<Response, Problem> {
    let ack = head.state.request_stop(&run, body).await?;
    Ok(json(StatusCode::ACCEPTED, ack.doc))
}

/// Changes the name, the notes or the tags of a run. What is not named stays; a tag that is null is removed (RFC 7396).
#[utoipa::path(patch, path = "/api/train/runs/{run_id}", tag = "people", params(("run_id" = RunId, Path)),
    request_body = AnnotateRun, responses((status = 200, body = TrainRun), AnyProblem, WriteProblem))]
pub(super) async fn annotate_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiJson(body): ApiJson<AnnotateRun>,
) -> Result<Response, Problem> {
    let ack = head.state.annotate(&run, body).await?;
    Ok(json(StatusCode::OK, ack.doc))
}

/// Puts an ended run into the trash: lists show it only with `trashed=true`, and nothing of it is lost until
/// `trainhead gc --purge`.
#[utoipa::path(delete, path = "/api/train/runs/{run_id}", tag = "people", params(("run_id" = RunId, Path)),
    responses((status = 200, body = TrainRun), AnyProblem, WriteProblem))]
pub(super) async fn trash_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
) -> Result<Response, Problem> {
    let ack = head.state.trash(&run).await?;
    Ok(json(StatusCode::OK, ack.doc))
}

/// Takes a run out of the trash.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/restore", tag = "people", params(("run_id" = RunId, Path)),
    responses((status = 200, body = TrainRun), AnyProblem, WriteProblem))]
pub(super) async fn restore_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
) -> Result<Response, Problem> {
    let ack = head.state.restore(&run).await?;
    Ok(json(StatusCode::OK, ack.doc))
}

/// Clears away: by the rules given, ended runs go to the trash, and what lay there long enough is deleted for good. At
/// most 1,000 runs a request; ask again as long as `remaining` is not 0.
#[utoipa::path(post, path = "/api/train/gc", tag = "people", request_body = CollectGarbage,
    responses((status = 200, body = Cleared), AnyProblem, WriteProblem))]
pub(super) async fn collect_garbage(
    State(head): State<Head>,
    ApiJson(body): ApiJson<CollectGarbage>,
) -> Result<Json<Cleared>, Problem> {
    Ok(Json(head.state.collect_garbage(body).await?))
}
