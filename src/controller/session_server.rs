//! The session over a unix socket: plain HTTP/1.1 with JSON, so that a client in any language is a page of code.

use std::{io, path::Path, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{net::UnixListener, sync::watch};
use tracing::warn;

use super::{
    checkpoints::{Consistency, HandedShard, Listed, Usable},
    session::{Context, ReportAnswer, Session, SessionError, TrialError, WorkerReport},
    trials::{Offered, Offers},
};
use crate::{
    base::{Invalid, Tasks, Timestamp, limits},
    model::names::check_name,
};

/// Nobody waits longer for checkpoints.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A worker that asks for its next trial is answered at least this often.
const TRIAL_WAIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Served {
    /// The one that is there now: each trial has its own.
    session: watch::Receiver<Arc<Session>>,
    /// Trials for a worker that asks for them; none in training.
    offers: Option<Arc<Offers>>,
    tasks: Tasks,
}

impl Served {
    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.borrow())
    }
}

/// Serves a session at `path` until the tasks are stopped.
pub(super) fn serve(session: Arc<Session>, path: &Path, tasks: &Tasks) -> io::Result<()> {
    serve_all(watch::channel(session).1, None, path, tasks)
}

/// Serves the sessions of one trial after the other, and tells which trial is next.
pub(super) fn serve_trials(
    session: watch::Receiver<Arc<Session>>,
    offers: Arc<Offers>,
    path: &Path,
    tasks: &Tasks,
) -> io::Result<()> {
    serve_all(session, Some(offers), path, tasks)
}

fn serve_all(
    session: watch::Receiver<Arc<Session>>,
    offers: Option<Arc<Offers>>,
    path: &Path,
    tasks: &Tasks,
) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let router = Router::new()
        .route("/context", get(context))
        .route("/report", post(report))
        .route("/log", post(log))
        .route("/checkpoint", get(checkpoint))
        .route("/checkpoints", get(checkpoints))
        .route("/preemption", post(preemption))
        .route("/trial", get(trial))
        .route("/finish", post(finish))
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .with_state(Served { session, offers, tasks: tasks.clone() });
    let stop = tasks.stopping();
    drop(tasks.spawn(async move {
        let serving = axum::serve(listener, router);
        tokio::select! {
            result = serving => if let Err(e) = result { warn!("the session's socket failed: {e}") },
            // Its workers are gone by then: nothing is in flight.
            () = stop.cancelled() => {}
        }
    }));
    Ok(())
}

#[derive(Deserialize)]
struct Whose {
    rank: u32,
    /// The rank acts on a notice by itself.
    #[serde(default)]
    heeds_notices: bool,
}

async fn context(State(served): State<Served>, Query(whose): Query<Whose>) -> Result<Json<Context>, Refused> {
    let session = served.session();
    if whose.heeds_notices {
        session.heeds_notices(whose.rank)?;
    }
    Ok(Json(session.context(whose.rank)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    rank: u32,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    time_ms: Option<Timestamp>,
    #[serde(default)]
    seq: Option<u64>,
    metrics: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    checkpoint: Option<HandedShard>,
}

async fn report(State(served): State<Served>, body: Bytes) -> Result<Json<ReportAnswer>, Refused> {
    let ReportBody { rank, step, time_ms, seq, metrics, checkpoint } = parse(&body)?;
    let session = served.session();
    let given = session.give(rank, WorkerReport { seq, step, time_ms, metrics, checkpoint })?;
    if given.waits() {
        // A worker that leaves while it waits does not take its report along.
        drop(served.tasks.spawn(given.clone().settled()));
        given.clone().settled().await?;
    }
    Ok(Json(session.answer(&given)))
}

#[derive(Serialize)]
struct Latest {
    checkpoint: Option<Usable>,
}

async fn checkpoint(
    State(served): State<Served>,
    Query(whose): Query<Whose>,
) -> Result<Json<Latest>, Refused> {
    Ok(Json(Latest { checkpoint: served.session().checkpoint(whose.rank).await? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    rank: u32,
    #[serde(default)]
    consistency: Consistency,
    #[serde(default)]
    after: Option<u64>,
    /// Seconds; as long as anybody waits if missing.
    #[serde(default)]
    timeout_s: Option<f64>,
}

#[derive(Serialize)]
struct All {
    checkpoints: Vec<Listed>,
}

async fn checkpoints(State(served): State<Served>, Query(which): Query<Which>) -> Result<Json<All>, Refused> {
    let Which { rank, consistency, after, timeout_s } = which;
    let limit = match timeout_s.map(Duration::try_from_secs_f64) {
        None => LONGEST_WAIT,
        Some(Ok(limit)) => limit.min(LONGEST_WAIT),
        Some(Err(e)) => return Err(SessionError::from(Invalid::rule("timeout_s", e.to_string())).into()),
    };
    Ok(Json(All { checkpoints: served.session().checkpoints(rank, consistency, after, Some(limit)).await? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogBody {
    rank: u32,
    points: Vec<WorkerReport>,
}

#[derive(Serialize)]
struct Logged {
    accepted: usize,
    stop: bool,
}

async fn log(State(served): State<Served>, body: Bytes) -> Result<Json<Logged>, Refused> {
    let LogBody { rank, points } = parse(&body)?;
    let accepted = points.len();
    Ok(Json(Logged { accepted, stop: served.session().log(rank, points)? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreemptionBody {
    rank: u32,
    #[serde(default)]
    reason: Option<String>,
}

async fn preemption(State(served): State<Served>, body: Bytes) -> Result<Json<Taken>, Refused> {
    let PreemptionBody { rank, reason } = parse(&body)?;
    if let Some(reason) = &reason {
        check_name("reason", reason).map_err(SessionError::from)?;
    }
    served.session().preempted(rank, reason.as_deref())?;
    Ok(Json(Taken {}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichTrial {
    rank: u32,
    /// The number of the last one that this worker has had.
    #[serde(default)]
    after: u64,
}

/// A worker asks for its next trial, again and again: an answer without one is given after a while.
async fn trial(
    State(served): State<Served>,
    Query(WhichTrial { rank, after }): Query<WhichTrial>,
) -> Result<Json<Offered>, Refused> {
    // Whether there is such a rank.
    served.session().context(rank)?;
    match &served.offers {
        Some(offers) => Ok(Json(offers.after(after, TRIAL_WAIT).await)),
        None => Err(Refused {
            field: None,
            detail: "this is a training: its workers are not given trials".to_owned(),
            limit: None,
        }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishBody {
    rank: u32,
    #[serde(default)]
    value: serde_json::Value,
    /// The number of the trial whose function has ended, although its process has not.
    #[serde(default)]
    trial: Option<u64>,
    /// What it raised.
    #[serde(default)]
    error: Option<Raised>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raised {
    message: String,
    #[serde(default)]
    traceback: Option<String>,
}

async fn finish(State(served): State<Served>, body: Bytes) -> Result<Json<Taken>, Refused> {
    let FinishBody { rank, value, trial, error } = parse(&body)?;
    let session = served.session();
    let Some(trial) = trial else {
        if error.is_some() {
            let message = "only of a trial an error is told: a training's rank fails by its exit code";
            return Err(SessionError::from(Invalid::rule("error", message)).into());
        }
        session.finish(rank, value)?;
        return Ok(Json(Taken {}));
    };
    // What is said of a trial that is over already changes nothing.
    if session.trial_number() == Some(trial) {
        if error.is_none() && !value.is_null() {
            session.finish(rank, value)?;
        }
        session.function_ended(match error {
            None => Ok(()),
            Some(Raised { message, traceback }) => Err(TrialError::Raised { message, traceback }),
        });
    }
    Ok(Json(Taken {}))
}

/// There is nothing to say.
#[derive(Serialize)]
struct Taken {}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let json = &mut serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(json).map_err(|e| Refused {
        field: Some(e.path().to_string()),
        detail: e.into_inner().to_string(),
        limit: None,
    })
}

/// A report that was not taken, as a problem that names the key.
struct Refused {
    field: Option<String>,
    detail: String,
    limit: Option<u64>,
}

impl From<SessionError> for Refused {
    fn from(e: SessionError) -> Self {
        match e {
            SessionError::Invalid(invalid) => {
                Self { field: Some(invalid.field), detail: invalid.message, limit: invalid.limit }
            }
            SessionError::NoSuchRank { .. } => {
                Self { field: Some("rank".to_owned()), detail: e.to_string(), limit: None }
            }
            SessionError::Checkpoint(detail) => {
                Self { field: Some("checkpoint".to_owned()), detail, limit: None }
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { field, detail, limit } = self;
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let problem = serde_json::json!({
            "type": "/problems/invalid",
            "title": "A rule is broken",
            "status": status.as_u16(),
            "detail": detail,
            "field": field,
            "limit": limit,
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], problem.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests;
