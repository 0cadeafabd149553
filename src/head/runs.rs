//! Runs: list, show, register.

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
    guard::HEADERS,
    problem::{AnyProblem, Problem, WriteProblem},
    router::Head,
};
use crate::{
    base::{Invalid, RunId, Timestamp, limits},
    model::{
        Event, RunStatus,
        commands::RegisterRun,
        view::{Member, TrainRun, TrainRunDetail},
    },
    state::{Ack, Facet, Include, ListQuery, PageToken, RunEvidence, Shelf, Sort},
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
    /// Only runs of this experiment.
    #[param(max_length = 256)]
    experiment: Option<String>,
    /// Only runs of this job.
    #[param(max_length = 256)]
    job_id: Option<String>,
    /// Only runs with this tag, `key:value`; repeat it for runs that have them all.
    #[serde(default)]
    #[param(max_items = 100)]
    tag: Vec<String>,
    /// Only runs that started then or later.
    started_after_ms: Option<Timestamp>,
    /// Only runs that started before.
    started_before_ms: Option<Timestamp>,
    /// `start_time`, `name`, `experiment`, `status`, `duration`, `attempts` (how many), `failures` (of workers and the
    /// controller), `workers` (of the newest attempt), `step` (the last one), `job`, `id`, `metric:KEY` or `setting:KEY`
    /// (`setting:optimizer/lr` for `lr` of `optimizer`), downwards with a `-` before it; `-start_time` if it is not
    /// given. Runs without such a value come last.
    #[param(max_length = 600)]
    sort: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
    /// Metrics whose last value each run carries, in `last_metrics`: repeat it or separate by commas; `*` for all that
    /// are at hand (64 a run).
    #[serde(default)]
    metrics: Vec<String>,
    /// What each run carries: `workers` (if this is not given), `attempts`, `evidence`, `stats`; repeat it or separate
    /// by commas. What changes by itself, such as the use of processors and GPUs, comes only when it is asked for.
    #[serde(default)]
    include: Vec<String>,
    /// True for the runs in the trash instead of the others.
    #[serde(default)]
    trashed: bool,
}

impl ListParams {
    fn query(&self) -> Result<ListQuery, Problem> {
        let groups = [self.experiment.as_ref().map(|e| Facet::Experiment(e.as_str().into()))];
        let groups = groups.into_iter().chain([self.job_id.as_ref().map(|j| Facet::Job(j.as_str().into()))]);
        let texts = [
            ("q", &self.q, limits::TAG_VALUE_CHARS),
            ("experiment", &self.experiment, limits::NAME_CHARS),
            ("job_id", &self.job_id, limits::NAME_CHARS),
            ("sort", &self.sort, limits::SORT_CHARS),
        ];
        for (field, text, limit) in texts {
            if text.as_ref().is_some_and(|text| text.chars().count() > limit) {
                return Err(Invalid::over(field, limit, "characters").into());
            }
        }
        if self.tag.len() > limits::TAGS {
            return Err(Invalid::over("tag", limits::TAGS, "tags").into());
        }
        if let Some(tag) = self.tag.iter().find(|tag| !tag.contains(':')) {
            return Err(Invalid::rule("tag", format!("{tag:?} is not of the form key:value")).into());
        }
        let tags = self.tag.iter().map(|tag| Some(Facet::Tag(tag.as_str().into())));
        Ok(ListQuery {
            statuses: self.status.clone(),
            text: self.q.clone(),
            groups: groups.chain(tags).flatten().collect(),
            started_after: self.started_after_ms,
            started_before: self.started_before_ms,
            shelf: if self.trashed { Shelf::Trash } else { Shelf::Runs },
            sort: self.sort.as_deref().map_or_else(|| Ok(Sort::default()), str::parse)?,
            page_size: page_size(self.page_size)?,
            page_token: self.page_token.as_deref().map(PageToken::parse).transpose()?,
        })
    }

    fn include(&self) -> Result<Include, Problem> {
        let metrics: Vec<String> = list(&self.metrics).map(str::to_owned).collect();
        if metrics.len() > limits::LISTED_METRICS {
            return Err(Invalid::over("metrics", limits::LISTED_METRICS, "metrics").into());
        }
        if self.include.is_empty() {
            return Ok(Include { metrics, ..Include::default() });
        }
        Ok(Include { members: members(&self.include)?, metrics })
    }
}

/// The parts of a parameter that is repeated or separated by commas.
fn list(values: &[String]) -> impl Iterator<Item = &str> {
    values.iter().flat_map(|list| list.split(',')).filter(|part| !part.is_empty())
}

fn members(include: &[String]) -> Result<Vec<Member>, Invalid> {
    list(include).map(str::parse).collect::<Result<_, _>>().map_err(|_| {
        let all: Vec<&str> = Member::ALL.iter().map(|m| m.as_str()).collect();
        Invalid::rule("include", format!("{} can be included", all.join(", ")))
    })
}

/// A page of the list.
#[derive(Serialize, ToSchema)]
pub(super) struct TrainRunList<'a> {
    /// The runs, newest start first if nothing else was asked for.
    train_runs: Vec<TrainRun<'a>>,
    /// How many there are in all.
    total_size: usize,
    /// Where to go on; null on the last page.
    next_page_token: Option<String>,
    /// How many runs of each status fit everything but `status`.
    #[schema(value_type = Object)]
    counts: std::collections::BTreeMap<RunStatus, usize>,
    /// The server's time of this answer.
    server_time_ms: Timestamp,
}

/// Lists runs, newest start first, reconciled before the answer is made.
#[utoipa::path(get, path = "/api/train/runs", tag = "read", params(ListParams),
    responses((status = 200, body = inline(TrainRunList)), AnyProblem))]
pub(super) async fn list_runs(
    State(head): State<Head>,
    ApiQuery(params): ApiQuery<ListParams>,
) -> Result<Response, Problem> {
    let (query, include) = (params.query()?, params.include()?);
    Ok(json(StatusCode::OK, head.state.list(&query, &include).await?))
}

/// What of a run is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ShowParams {
    /// `stats`: what the workers on the head's host use right now, as `process_stats` and `gpus` of each. What else the list
    /// can include is there anyway.
    #[serde(default)]
    include: Vec<String>,
}

/// One run in full.
#[utoipa::path(get, path = "/api/train/runs/{run_id}", tag = "read", params(("run_id" = RunId, Path), ShowParams),
    responses((status = 200, body = inline(TrainRunDetail)), AnyProblem))]
pub(super) async fn show_run(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<ShowParams>,
) -> Result<Response, Problem> {
    let run = if members(&params.include)?.contains(&Member::Stats) {
        head.state.run_with_stats(&run).await?
    } else {
        head.state.run(&run).await?
    };
    Ok(json(StatusCode::OK, run))
}

/// What changes of a run by the clock alone, to be asked for as often as somebody looks at it.
#[utoipa::path(get, path = "/api/train/runs/{run_id}/evidence", tag = "read",
    params(("run_id" = RunId, Path), ShowParams),
    responses((status = 200, body = inline(RunEvidence)), AnyProblem))]
pub(super) async fn show_evidence(
    State(head): State<Head>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<ShowParams>,
) -> Result<Json<RunEvidence>, Problem> {
    let with_stats = members(&params.include)?.contains(&Member::Stats);
    Ok(Json(head.state.run_evidence(&run, with_stats).await?))
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
    State(head): State<Head>,
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
pub(super) struct RegisteredRun<'a> {
    /// The run as it is listed.
    #[schema(value_type = TrainRun)]
    run: &'a RawValue,
    /// The secret that all later writes of this controller carry. For who has joined another's run: one with which only
    /// reports are taken.
    controller_token: String,
    /// How many controllers the run has had.
    epoch: u32,
    /// The server's time.
    server_time_ms: Timestamp,
}

/// Registers a run. The same body of the same controller again is a retry: 200 with the same record. A controller that
/// is gone is replaced; one that is alive only with `takeover`. With `resume` a run that ended as ERRORED or ABORTED goes
/// on. With `join` a run that exists, live or ended, is left as it is, and the answer's token delivers metrics to it.
#[utoipa::path(post, path = "/api/train/runs", tag = "controller", request_body = RegisterRun,
    responses((status = 201, body = inline(RegisteredRun), description = "Registered, taken over or resumed."),
        (status = 200, body = inline(RegisteredRun), description = "Was registered by the same request, or joined."),
        AnyProblem, WriteProblem))]
pub(super) async fn register_run(
    State(head): State<Head>,
    ApiJson(body): ApiJson<RegisterRun>,
) -> Result<Response, Problem> {
    let (registration, ack) = head.state.register(body).await?;
    let status = if registration.created { StatusCode::CREATED } else { StatusCode::OK };
    let answer = RegisteredRun {
        run: shown(&ack)?,
        controller_token: registration.token.expose().to_owned(),
        epoch: registration.epoch,
        server_time_ms: head.state.now(),
    };
    Ok((status, Json(answer)).into_response())
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
    response.headers_mut().reserve(HEADERS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The run as it is listed after a write.
pub(super) fn raw(ack: &Ack) -> Result<Box<RawValue>, Problem> {
    shown(ack).map(ToOwned::to_owned)
}

fn shown(ack: &Ack) -> Result<&RawValue, Problem> {
    serde_json::from_slice(&ack.doc).map_err(|e| Problem::internal(&e.to_string()))
}
