//! Checkpoints: the ledger of a run, what its controller says of them, and pins.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    controllers::{Written, say},
    extract::{ApiJson, ApiPath, ApiQuery, ControllerToken},
    problem::{AnyProblem, Problem, WriteProblem},
    router::Head,
    runs::page_size,
};
use crate::{
    base::{Invalid, RunId},
    model::{
        checkpoint::{CheckpointView, RecordCheckpoint},
        people::Pin,
        verbs::RunVerb,
    },
};

/// A page of checkpoints.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CheckpointParams {
    /// How many.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
}

/// The checkpoints of a run.
#[derive(Serialize, ToSchema)]
pub(super) struct CheckpointList {
    /// Newest first.
    checkpoints: Vec<CheckpointView>,
    /// How many there are in all, with those that are gone.
    total_size: usize,
    /// Number of the best one that can be used.
    best: Option<u64>,
    /// Number of the one that training would go on from.
    latest: Option<u64>,
    /// Where to go on; null on the last page.
    next_page_token: Option<String>,
}

/// The checkpoints of a run, newest first: how each stands, and what retention makes of it.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/checkpoints", tag = "read",
    params(("run_id" = RunId, Path), CheckpointParams), responses((status = 200, body = inline(CheckpointList)), AnyProblem))]
pub(super) async fn list_checkpoints(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<CheckpointParams>,
) -> Result<Json<CheckpointList>, Problem> {
    let limit = usize::try_from(page_size(params.page_size)?).unwrap_or(usize::MAX);
    let before = params.page_token.as_deref().map(str::parse::<u64>).transpose().map_err(|_| {
        Invalid::malformed("page_token", "take the next_page_token of the answer before, unchanged")
    })?;
    let all = head.state.checkpoints(&run).await?;
    let (total_size, of) =
        (all.len(), |is: fn(&CheckpointView) -> bool| all.iter().find(|c| is(c)).map(|c| c.number));
    let (best, latest) = (of(|c| c.best), of(|c| c.latest));
    let mut page: Vec<_> =
        all.into_iter().filter(|c| before.is_none_or(|before| c.number < before)).take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let next_page_token = page.last().filter(|_| more).map(|c| c.number.to_string());
    Ok(Json(CheckpointList { checkpoints: page, total_size, best, latest, next_page_token }))
}

/// A checkpoint was committed, or stands elsewhere now. The same again changes nothing; what a checkpoint is (its step,
/// attempt, place and size) does not change.
#[utoipa::path(put, path = "/api/train/runs/{run_id}/checkpoints/{number}", tag = "controller", request_body = RecordCheckpoint,
    params(("run_id" = RunId, Path), ("number" = u64, Path)), responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn record_checkpoint(
    State(head): State<Head>,
    ApiPath((run, number)): ApiPath<(RunId, u64)>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<RecordCheckpoint>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::RecordCheckpoint(number, Box::new(body))).await
}

/// Keeps a checkpoint, whatever the run's retention says. A live controller hears of it with its next heartbeat.
#[utoipa::path(put, path = "/api/train/runs/{run_id}/checkpoints/{number}/pin", tag = "people",
    params(("run_id" = RunId, Path), ("number" = u64, Path)), responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn pin_checkpoint(
    State(head): State<Head>,
    ApiPath((run, number)): ApiPath<(RunId, u64)>,
) -> Result<Json<Written>, Problem> {
    let ack = head.state.pin_checkpoint(&run, number, Pin::Set).await?;
    Written::of(&ack)
}

/// Leaves a checkpoint to the run's retention again.
#[utoipa::path(delete, path = "/api/train/runs/{run_id}/checkpoints/{number}/pin", tag = "people",
    params(("run_id" = RunId, Path), ("number" = u64, Path)), responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn unpin_checkpoint(
    State(head): State<Head>,
    ApiPath((run, number)): ApiPath<(RunId, u64)>,
) -> Result<Json<Written>, Problem> {
    let ack = head.state.pin_checkpoint(&run, number, Pin::Removed).await?;
    Written::of(&ack)
}
