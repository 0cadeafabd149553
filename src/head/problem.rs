//! Errors as RFC 9457 problems. Every error of every layer is mapped here, in one exhaustive match.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tracing::{error, warn};
use utoipa::{IntoResponses, ToSchema};

use crate::{
    base::{Invalid, invalid::InvalidKind},
    model::Refusal,
    state::StateError,
};

/// What went wrong and what to do about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// A stable word for this kind of problem, `/problems/run-exists`.
    pub r#type: String,
    /// The kind in a few words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What happened here and what to do.
    pub detail: String,
    /// The field of the request that is to blame.
    pub field: Option<String>,
    /// The documented limit that was passed.
    pub limit: Option<u64>,
    /// The id of the request, also in the server's log.
    pub request_id: Option<String>,
    #[serde(skip)]
    retry_after: bool,
}

/// The problems that any route may answer with.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the OpenAPI document only")]
pub(super) enum AnyProblem {
    /// Not understood: not JSON, a wrong type, a bad page token, an implausible time.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// Not allowed: a token that is not this run's, a `Host` or `Origin` that is not ours.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(#[to_schema] Problem),
    /// There is no such run, attempt, log or route.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] Problem),
    /// Understood, but breaks a rule; `field` says which one.
    #[response(status = 422, content_type = "application/problem+json")]
    Unprocessable(#[to_schema] Problem),
    /// The store cannot be used just now; try again.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] Problem),
}

/// The further problems of a route which takes a body and writes nothing.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the OpenAPI document only")]
pub(super) enum BodyProblem {
    /// The body is over its limit.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Problem),
    /// The body is not JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(#[to_schema] Problem),
}

/// The further problems that a route which writes may answer with.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the OpenAPI document only")]
pub(super) enum WriteProblem {
    /// No token.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(#[to_schema] Problem),
    /// The state of the run does not allow it.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(#[to_schema] Problem),
    /// The body is over its limit.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Problem),
    /// The body is not of a content type or encoding that the route takes.
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(#[to_schema] Problem),
    /// The disk is full.
    #[response(status = 507, content_type = "application/problem+json")]
    DiskFull(#[to_schema] Problem),
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        slug: &str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            r#type: format!("/problems/{slug}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            limit: None,
            request_id: None,
            retry_after: false,
        }
    }

    pub(super) fn no_route(path: &str) -> Self {
        let detail = format!("there is nothing at {path}; the API is described at /openapi.json and /docs");
        Self::new(StatusCode::NOT_FOUND, "no-route", "No such route", detail)
    }

    pub(super) fn no_method(method: &str) -> Self {
        let detail = format!("{method} is not possible here; the Allow header says what is");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", "Method not allowed", detail)
    }

    pub(super) fn no_token() -> Self {
        let detail = "send the controller_token of the registration as 'Authorization: Bearer …'";
        Self::new(StatusCode::UNAUTHORIZED, "no-token", "No token", detail)
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    pub(super) fn wrong_type(wanted: &str) -> Self {
        let detail = format!("send the body as {wanted}");
        let slug = if wanted == "application/json" { "not-json" } else { "wrong-type" };
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, slug, "Wrong content type", detail)
    }

    pub(super) fn wrong_encoding(given: &str) -> Self {
        let detail =
            format!("{given:?} is not a content encoding that is taken here; send gzip, zstd or none");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self {
            field: Some("content-encoding".into()),
            ..Self::new(status, "wrong-encoding", "Wrong encoding", detail)
        }
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let detail = format!("a body has at most {limit} bytes, unpacked; send smaller batches");
        let problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Body too large", detail);
        Self { limit: u64::try_from(limit).ok(), ..problem }
    }

    pub(super) fn too_many_streams(limit: usize) -> Self {
        let detail = format!("{limit} streams are open, and there cannot be more; close some and try again");
        let problem =
            Self::later(StatusCode::TOO_MANY_REQUESTS, "too-many-streams", "Too many streams", detail);
        Self { limit: u64::try_from(limit).ok(), ..problem }
    }

    pub(super) fn internal(detail: &str) -> Self {
        error!("a request failed by our own fault: {detail}");
        let detail = "this is a fault of TrainHead; its log has more under the request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
    }

    fn later(status: StatusCode, slug: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { retry_after: true, ..Self::new(status, slug, title, detail) }
    }

    pub(super) fn with_request_id(self, id: String) -> Self {
        Self { request_id: Some(id), ..self }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let Invalid { field, message, limit, kind } = invalid;
        let (status, slug, title) = match kind {
            InvalidKind::Malformed => (StatusCode::BAD_REQUEST, "malformed", "Not understood"),
            InvalidKind::Rule => (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "A rule is broken"),
        };
        let detail = if field.is_empty() { message } else { format!("{field}: {message}") };
        Self { field: Some(field).filter(|f| !f.is_empty()), limit, ..Self::new(status, slug, title, detail) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let said = refusal.to_string();
        match refusal {
            Refusal::RunNotFound(_) => Self::new(StatusCode::NOT_FOUND, "run-not-found", "No such run", said),
            Refusal::AttemptNotFound { .. } => {
                Self::new(StatusCode::NOT_FOUND, "attempt-not-found", "No such attempt", said)
            }
            Refusal::CheckpointNotFound { .. } => {
                Self::new(StatusCode::NOT_FOUND, "checkpoint-not-found", "No such checkpoint", said)
            }
            Refusal::CheckpointGone { .. } => {
                Self::new(StatusCode::CONFLICT, "checkpoint-gone", "The checkpoint is gone", said)
            }
            Refusal::RunExists(_) => {
                let detail = format!(
                    "{said}; choose another id, or send \"takeover\": true to replace that controller"
                );
                Self::new(StatusCode::CONFLICT, "run-exists", "The run exists", detail)
            }
            Refusal::RunEnded(_) => {
                let detail = format!("{said}; what has ended does not change");
                Self::new(StatusCode::CONFLICT, "run-ended", "The run has ended", detail)
            }
            Refusal::NothingToResume => {
                let detail = format!("{said}; register a new run");
                Self::new(StatusCode::CONFLICT, "run-ended", "The run has ended", detail)
            }
            Refusal::StaleController { .. } => {
                let detail = format!("{said}; stop writing to this run");
                Self::new(StatusCode::CONFLICT, "stale-controller", "Stale controller", detail)
            }
            Refusal::WrongToken => {
                let detail = format!("{said}; send the controller_token that its registration answered with");
                Self::new(StatusCode::FORBIDDEN, "wrong-token", "Wrong token", detail)
            }
            Refusal::IllegalTransition { .. } => {
                Self::new(StatusCode::CONFLICT, "illegal-transition", "Illegal transition", said)
            }
            Refusal::AttemptLive(_) => {
                let detail = format!("{said}; end it first");
                Self::new(StatusCode::CONFLICT, "attempt-live", "An attempt is live", detail)
            }
            Refusal::RunLive(_) => {
                let detail = format!("{said}; stop it first, and wait until it has ended");
                Self::new(StatusCode::CONFLICT, "run-live", "The run is live", detail)
            }
            Refusal::NoResources(_) => {
                let detail =
                    format!("{said}; try again when another attempt has ended, see /api/train/nodes");
                Self::later(StatusCode::CONFLICT, "no-resources", "Not enough free resources", detail)
            }
            Refusal::LogGap { size, .. } => {
                let detail = format!("{said}; send from offset {size} on");
                let problem =
                    Self::new(StatusCode::CONFLICT, "log-gap", "Bytes of the log are missing", detail);
                Self { limit: Some(size), ..problem }
            }
            Refusal::Invalid(invalid) => invalid.into(),
        }
    }
}

impl From<StateError> for Problem {
    fn from(e: StateError) -> Self {
        match e {
            StateError::Refused(refusal) => refusal.into(),
            StateError::Busy => Self::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "Busy",
                "too many writes wait; try again",
            ),
            StateError::Stopping => Self::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "stopping",
                "Stopping",
                "the head is stopping; try again",
            ),
            StateError::DiskFull => {
                let detail = "the disk of the head's data directory is full; nothing was written; free space and try again";
                Self::later(StatusCode::INSUFFICIENT_STORAGE, "disk-full", "Disk full", detail)
            }
            StateError::Unavailable(why) => {
                warn!("a request failed because of the store: {why}");
                let detail =
                    "the store cannot be used just now; nothing was written; try again, and see /readyz";
                Self::later(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", "Store unavailable", detail)
            }
            StateError::NewerDatabase { .. } => Self::internal(&e.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // The guard around all routes adds the request's id.
        response.extensions_mut().insert(self);
        response
    }
}
