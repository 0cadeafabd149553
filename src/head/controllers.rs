//! What controllers say: state, attempts, workers, metrics, heartbeats, the end.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    extract::{ApiJson, ApiPath, ControllerToken},
    packed::ApiPacked,
    problem::{AnyProblem, Problem, WriteProblem},
    router::Head,
    runs::raw,
};
use crate::{
    base::{AttemptId, RunId, Secret, Timestamp},
    model::{
        commands::{HeartbeatAnswer, Heartbeats},
        metrics::{ReportBatch, Stored},
        verbs::{AttemptRunning, BeginAttempt, Begun, EndAttempt, EndRun, RunVerb, SetState, WorkerChanges},
        view::TrainRun,
    },
    state::Ack,
};

/// The answer to a write: the run as it is listed now.
#[derive(Serialize, ToSchema)]
pub(super) struct Written {
    /// The run.
    #[schema(value_type = TrainRun)]
    run: Box<RawValue>,
}

impl Written {
    pub(super) fn of(ack: &Ack) -> Result<Json<Self>, Problem> {
        Ok(Json(Self { run: raw(ack)? }))
    }
}

pub(super) async fn say(
    head: &Head,
    run: &RunId,
    token: &Secret,
    verb: RunVerb,
) -> Result<Json<Written>, Problem> {
    Written::of(&head.state.say(run, token, verb).await?)
}

/// The controller's state changed. Only transitions that the state machine has are taken.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/state", tag = "controller", request_body = SetState, params(("run_id" = RunId, Path)),
    responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn set_state(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<SetState>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::SetState(body)).await
}

/// The answer to a new attempt.
#[derive(Serialize, ToSchema)]
pub(super) struct AttemptBegun {
    /// The attempt.
    attempt: BegunAttempt,
    /// The run.
    #[schema(value_type = TrainRun)]
    run: Box<RawValue>,
}

/// A new attempt.
#[derive(Serialize, ToSchema)]
pub(super) struct BegunAttempt {
    /// The id that the controller chose.
    attempt_id: AttemptId,
    /// What it got.
    #[serde(flatten)]
    got: Begun,
}

/// A worker group is being placed; the answer says how many workers it has, and where. The same attempt id again is the
/// same attempt.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/attempts", tag = "controller", request_body = BeginAttempt, params(("run_id" = RunId, Path)),
    responses((status = 201, body = inline(AttemptBegun)), AnyProblem, WriteProblem))]
pub(super) async fn begin_attempt(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<BeginAttempt>,
) -> Result<Response, Problem> {
    let attempt_id = body.attempt_id.clone();
    let (got, ack) = head.state.begin_attempt(&run, &token, body).await?;
    let begun = AttemptBegun { attempt: BegunAttempt { attempt_id, got }, run: raw(&ack)? };
    Ok((StatusCode::CREATED, Json(begun)).into_response())
}

/// The workers of an attempt run.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/attempts/{attempt_id}/running", tag = "controller", request_body = AttemptRunning,
    params(("run_id" = RunId, Path), ("attempt_id" = AttemptId, Path)),
    responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn run_attempt(
    State(head): State<Head>,
    ApiPath((run, attempt)): ApiPath<(RunId, AttemptId)>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<AttemptRunning>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::AttemptRunning(attempt, body)).await
}

/// Single workers changed.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/attempts/{attempt_id}/workers", tag = "controller", request_body = WorkerChanges,
    params(("run_id" = RunId, Path), ("attempt_id" = AttemptId, Path)),
    responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn change_workers(
    State(head): State<Head>,
    ApiPath((run, attempt)): ApiPath<(RunId, AttemptId)>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<WorkerChanges>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::ChangeWorkers(attempt, body)).await
}

/// An attempt ended. The same end again changes nothing.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/attempts/{attempt_id}/end", tag = "controller", request_body = EndAttempt,
    params(("run_id" = RunId, Path), ("attempt_id" = AttemptId, Path)),
    responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn end_attempt(
    State(head): State<Head>,
    ApiPath((run, attempt)): ApiPath<(RunId, AttemptId)>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<EndAttempt>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::EndAttempt(attempt, body)).await
}

/// The run ended. The same status again changes nothing; another one is refused.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/end", tag = "controller", request_body = EndRun, params(("run_id" = RunId, Path)),
    responses((status = 200, body = inline(Written)), AnyProblem, WriteProblem))]
pub(super) async fn end_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ControllerToken(token): ControllerToken,
    ApiJson(body): ApiJson<EndRun>,
) -> Result<Json<Written>, Problem> {
    say(&head, &run, &token, RunVerb::End(Box::new(body))).await
}

/// The answer to a report.
#[derive(Serialize, ToSchema)]
pub(super) struct Reported {
    /// Points of the batch that are stored.
    points: u64,
    /// The batch's number.
    seq: u64,
    /// Whether the batch was stored before: nothing of it was now.
    known: bool,
}

/// Stores metrics: all of the batch or, if a value is not a number, nothing of it. Renews the lease. A batch number that
/// was stored before is acknowledged and stores nothing. What comes late is taken as well: for a run that has ended, with
/// the token of an earlier controller of the run, and with that of who has joined it; those renew no lease.
///
/// The body may be compressed (`Content-Encoding: gzip` or `zstd`); its limit of 16 MiB is that of what comes out. In
/// MessagePack, NaN and the infinities are floats like others.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/reports", tag = "controller", params(("run_id" = RunId, Path)),
    request_body(content((ReportBatch = "application/json"), (ReportBatch = "application/msgpack"))),
    responses((status = 200, body = inline(Reported)), AnyProblem, WriteProblem))]
pub(super) async fn report_metrics(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ControllerToken(token): ControllerToken,
    ApiPacked(body): ApiPacked<ReportBatch>,
) -> Result<Json<Reported>, Problem> {
    let seq = body.seq;
    let Stored { points, known } = head.state.report(&run, &token, body).await?;
    Ok(Json(Reported { points, seq, known }))
}

/// The answer to heartbeats.
#[derive(Serialize, ToSchema)]
pub(super) struct HeartbeatAnswers {
    /// For each run of the request, in order.
    runs: Vec<HeartbeatAnswer>,
    /// The server's time.
    server_time_ms: Timestamp,
}

/// Controllers say that they live, for one run or for many. The answer says for each whether it shall stop.
#[utoipa::path(post, path = "/api/train/heartbeats", tag = "controller", request_body = Heartbeats,
    responses((status = 200, body = inline(HeartbeatAnswers)), AnyProblem, WriteProblem))]
pub(super) async fn send_heartbeats(
    State(head): State<Head>,
    ApiJson(body): ApiJson<Heartbeats>,
) -> Result<Json<HeartbeatAnswers>, Problem> {
    let runs = head.state.heartbeats(body.runs).await?;
    Ok(Json(HeartbeatAnswers { runs, server_time_ms: head.state.now() }))
}
