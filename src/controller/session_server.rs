//! The session over a unix socket: plain HTTP/1.1 with JSON, so that a client in any language is a page of code.

use std::{io, path::Path, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::net::UnixListener;
use tracing::warn;

use super::session::{Context, Notice, Session, SessionError, WorkerReport};
use crate::{
    base::{Tasks, Timestamp, limits},
    model::names::check_name,
};

/// Serves a session at `path` until the tasks are stopped.
pub(super) fn serve(session: Arc<Session>, path: &Path, tasks: &Tasks) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let router = Router::new()
        .route("/context", get(context))
        .route("/report", post(report))
        .route("/log", post(log))
        .route("/preemption", post(preemption))
        .route("/finish", post(finish))
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .with_state(session);
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

async fn context(
    State(session): State<Arc<Session>>,
    Query(whose): Query<Whose>,
) -> Result<Json<Context>, Refused> {
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
    metrics: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Reported {
    stop: bool,
    report_index: u64,
    preemption: Option<Notice>,
    checkpoint: Option<()>,
}

async fn report(State(session): State<Arc<Session>>, body: Bytes) -> Result<Json<Reported>, Refused> {
    let ReportBody { rank, step, time_ms, metrics } = parse(&body)?;
    let answer = session.report(rank, WorkerReport { step, time_ms, metrics })?;
    Ok(Json(Reported {
        stop: answer.stop,
        report_index: answer.report_index,
        preemption: answer.preemption,
        checkpoint: None,
    }))
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

async fn log(State(session): State<Arc<Session>>, body: Bytes) -> Result<Json<Logged>, Refused> {
    let LogBody { rank, points } = parse(&body)?;
    let accepted = points.len();
    Ok(Json(Logged { accepted, stop: session.log(rank, points)? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreemptionBody {
    rank: u32,
    #[serde(default)]
    reason: Option<String>,
}

async fn preemption(State(session): State<Arc<Session>>, body: Bytes) -> Result<Json<Taken>, Refused> {
    let PreemptionBody { rank, reason } = parse(&body)?;
    if let Some(reason) = &reason {
        check_name("reason", reason).map_err(SessionError::from)?;
    }
    session.preempted(rank, reason.as_deref())?;
    Ok(Json(Taken {}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishBody {
    rank: u32,
    value: serde_json::Value,
}

async fn finish(State(session): State<Arc<Session>>, body: Bytes) -> Result<Json<Taken>, Refused> {
    let FinishBody { rank, value } = parse(&body)?;
    session.finish(rank, value)?;
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
