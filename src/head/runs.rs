//! Runs: list, show, register, stop.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::{ApiJson, ApiPath, ApiQuery},
    problem::{AnyProblem, Problem, WriteProblem},
    router::HeadOptions,
};
use crate::{
    base::{Invalid, RunId, Timestamp, limits},
    model::{
        Event, RunStatus,
        commands::{RegisterRun, StopRun},
        view::{TrainRun, TrainRunDetail},
    },
    state::{Ack, ListQuery},
};

/// What of the list is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Only runs of these statuses; repeat it for several.
    #[serde(default)]
    status: Vec<RunStatus>,
    /// Only runs whose name, id, job id or tags (`key:value`) hold this text, whatever the case.
    #[param(max_length = 5000)]
    q: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
    /// What each run carries: `workers` (always there) and `evidence` (with the last metrics); repeat it or separate by
    /// commas.
    #[serde(default)]
    include: Vec<String>,
}

/// A page of the list.
#[derive(Serialize, ToSchema)]
pub(super) struct TrainRunList<'a> {
    /// The runs, newest start first.
    train_runs: Vec<TrainRun<'a>>,
    /// How many there are in all.
    total_size: usize,
    /// Where to go on; null on the last page.
    next_page_token: Option<String>,
    /// How many runs of each status fit `q`.
    #[schema(value_type = Object)]
    counts: std::collections::BTreeMap<RunStatus, usize>,
    /// The server's time of this answer.
    server_time_ms: Timestamp,
}

/// Lists runs, newest start first, reconciled before the answer is made.
#[utoipa::path(get, path = "/api/train/runs", tag = "read", params(ListParams),
    responses((status = 200, body = inline(TrainRunList)), AnyProblem))]
pub(super) async fn list_runs(
    State(head): State<HeadOptions>,
    ApiQuery(params): ApiQuery<ListParams>,
) -> Result<Response, Problem> {
    let mut evidence = false;
    for what in params.include.iter().flat_map(|list| list.split(',')) {
        match what {
            "workers" => {}
            "evidence" => evidence = true,
            _ => return Err(Invalid::rule("include", "workers and evidence can be included").into()),
        }
    }
    let query = ListQuery {
        statuses: params.status,
        text: params.q,
        page_size: page_size(params.page_size)?,
        page_token: params.page_token.as_deref().map(crate::state::PageToken::parse).transpose()?,
    };
    Ok(json(StatusCode::OK, head.state.list(&query, evidence).await?))
}

/// One run in full.
#[utoipa::path(get, path = "/api/train/runs/{run_id}", tag = "read", params(("run_id" = RunId, Path)),
    responses((status = 200, body = inline(TrainRunDetail)), AnyProblem))]
pub(super) async fn show_run(
    State(head): State<HeadOptions>,
    ApiPath(run): ApiPath<RunId>,
) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, head.state.run(&run).await?))
}

/// A page of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// How many.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
}

/// A run's trail.
#[derive(Serialize, ToSchema)]
pub(super) struct EventList {
    /// The events, oldest first.
    events: Vec<Event>,
    /// Where to go on; null on the last page.
    next_page_token: Option<String>,
}

/// The trail of a run: who changed what, when, why, and on what evidence.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/events", tag = "read",
    params(("run_id" = RunId, Path), EventParams), responses((status = 200, body = inline(EventList)), AnyProblem))]
pub(super) async fn list_events(
    State(head): State<HeadOptions>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<EventParams>,
) -> Result<Json<EventList>, Problem> {
    let limit = page_size(params.page_size)?;
    let after = params.page_token.as_deref().map_or(Ok(0), str::parse).map_err(|_| {
        Invalid::malformed("page_token", "take the next_page_token of the answer before, unchanged")
    })?;
    let mut events = head.state.events(&run, after, limit + 1).await?;
    let more = events.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        events.pop();
    }
    let next_page_token = events.last().filter(|_| more).map(|e| e.id.to_string());
    Ok(Json(EventList { events, next_page_token }))
}

/// The answer to a registration.
#[derive(Serialize, ToSchema)]
pub(super) struct RegisteredRun {
    /// The run as it is listed.
    #[schema(value_type = TrainRun)]
    run: Box<RawValue>,
    /// The secret that all later writes of this controller carry.
    controller_token: String,
    /// How many controllers the run has had.
    epoch: u32,
    /// The server's time.
    server_time_ms: Timestamp,
}

/// Registers a run. The same body of the same controller again is a retry: 200 with the same record. A controller that
/// is gone is replaced; one that is alive only with `takeover`.
#[utoipa::path(post, path = "/api/train/runs", tag = "controller", request_body = RegisterRun,
    responses((status = 201, body = inline(RegisteredRun), description = "Registered, or taken over."),
        (status = 200, body = inline(RegisteredRun), description = "Was registered by the same request."),
        AnyProblem, WriteProblem))]
pub(super) async fn register_run(
    State(head): State<HeadOptions>,
    ApiJson(body): ApiJson<RegisterRun>,
) -> Result<Response, Problem> {
    let (registration, ack) = head.state.register(body).await?;
    let status = if registration.created { StatusCode::CREATED } else { StatusCode::OK };
    let answer = RegisteredRun {
        run: raw(&ack)?,
        controller_token: registration.token.expose().to_owned(),
        epoch: registration.epoch,
        server_time_ms: head.state.now(),
    };
    Ok((status, Json(answer)).into_response())
}

/// Asks a run to stop. Its controller is told with its next heartbeat; if it never confirms, the run is ABORTED after
/// the grace and a lease.
#[utoipa::path(post, path = "/api/train/runs/{run_id}/stop", tag = "people", params(("run_id" = RunId, Path)),
    request_body = StopRun, responses((status = 202, body = TrainRun), AnyProblem, WriteProblem))]
pub(super) async fn stop_run(
    State(head): State<HeadOptions>,
    ApiPath(run): ApiPath<RunId>,
    ApiJson(body): ApiJson<StopRun>,
) -> Result<Response, Problem> {
    let ack = head.state.request_stop(&run, body).await?;
    Ok(json(StatusCode::ACCEPTED, ack.doc))
}

pub(super) fn page_size(asked: Option<u32>) -> Result<u32, Problem> {
    let size = asked.unwrap_or(limits::DEFAULT_PAGE_SIZE);
    if size == 0 || size > limits::PAGE_SIZE {
        let limit = usize::try_from(limits::PAGE_SIZE).unwrap_or(usize::MAX);
        return Err(Invalid::over("page_size", limit, "entries, and at least one,").into());
    }
    Ok(size)
}

/// A ready-made JSON answer.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The run as it is listed after a write.
pub(super) fn raw(ack: &Ack) -> Result<Box<RawValue>, Problem> {
    serde_json::from_slice(&ack.doc).map_err(|e| Problem::internal(&e.to_string()))
}
