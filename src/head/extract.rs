//! Taking requests apart, with errors that name the field.

use axum::{
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::base::{Invalid, Secret, invalid::InvalidKind, limits};

/// A JSON body. Unknown fields are refused by name, as their types say.
pub(super) struct ApiJson<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_type(request.headers(), "application/json") {
            return Err(Problem::wrong_type("application/json"));
        }
        read_json(&whole_body(request).await?).map(Self)
    }
}

/// Reads JSON. What is wrong is looked for in a second pass, which is slower and knows the path to it.
pub(super) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        let inner = e.into_inner();
        complaint(path, inner.to_string(), !inner.is_data())
    })?;
    json.end().map_err(|e| complaint(String::new(), e.to_string(), true))?;
    Ok(value)
}

/// A body of raw bytes.
pub(super) struct ApiBytes(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for ApiBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // A page of another site cannot send this type without asking first.
        if !is_type(request.headers(), "application/octet-stream") {
            return Err(Problem::wrong_type("application/octet-stream"));
        }
        whole_body(request).await.map(Self)
    }
}

pub(super) async fn whole_body(request: Request) -> Result<Bytes, Problem> {
    to_bytes(request.into_body(), limits::BODY_BYTES).await.map_err(|e| {
        if e.to_string().contains("length limit") {
            Problem::too_large(limits::BODY_BYTES)
        } else {
            Invalid::malformed("", "the body ended before it was complete").into()
        }
    })
}

/// The query string. A repeated key becomes a list; unknown keys are refused by name, as their types say.
pub(super) struct ApiQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = serde_html_form::Deserializer::from_bytes(query.as_bytes());
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|e| {
            let path = e.path().to_string();
            complaint(path, e.into_inner().to_string(), true)
        })
    }
}

/// Parts of the path.
pub(super) struct ApiPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            // An id that cannot be one names nothing.
            Err(_) => Err(Problem::no_route(parts.uri.path())),
        }
    }
}

/// The token of a run's controller.
pub(super) struct ControllerToken(pub(super) Secret);

impl<S: Send + Sync> FromRequestParts<S> for ControllerToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let value =
            parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
        match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => {
                Ok(Self(Secret::new(token.trim().to_owned())))
            }
            _ => Err(Problem::no_token()),
        }
    }
}

pub(super) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}

/// A complaint about what stands at `path`. `unreadable`: it is not even of the format.
pub(super) fn complaint(path: String, message: String, unreadable: bool) -> Problem {
    let field = if path == "." { String::new() } else { path };
    let malformed = unreadable || message.starts_with("invalid type");
    let kind = if malformed { InvalidKind::Malformed } else { InvalidKind::Rule };
    Invalid { field, message, limit: None, kind }.into()
}
