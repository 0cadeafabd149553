//! Whether the head lives and whether it can do its work.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::{problem::Problem, router::Head};
use crate::state::Webhook;

/// The head lives.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the head lives.
#[utoipa::path(get, path = "/healthz", tag = "head", responses((status = 200, body = inline(Health))))]
pub(super) async fn check_health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the head can do its work.
#[derive(Serialize, ToSchema)]
pub(super) struct Ready {
    /// `ready` or `not ready`.
    status: &'static str,
    /// What is wrong.
    problem: Option<String>,
    /// Age of the last good sweep, ms.
    last_sweep_age_ms: i64,
    /// Commits that failed since the start.
    store_failures: i64,
    /// Size of the database, bytes.
    database_bytes: u64,
    /// Free space for the data directory, bytes.
    disk_free_bytes: Option<u64>,
    /// How far each webhook is; one that fails does not make the head unready.
    webhooks: Vec<Webhook>,
    /// Version of the program.
    version: &'static str,
}

/// A sweep is made every second; one that is this old means that the reconciler stands still.
const STALE_SWEEP_MS: i64 = 10_000;
/// With less space than this the next commits fail.
const LEAST_FREE_BYTES: u64 = 4 * 1024 * 1024;

/// Whether the head can do its work: the store can be written, the reconciler sweeps, the disk has space.
#[utoipa::path(get, path = "/readyz", tag = "head",
    responses((status = 200, body = inline(Ready)), (status = 503, body = inline(Ready))))]
pub(super) async fn check_readiness(State(head): State<Head>) -> Result<(StatusCode, Json<Ready>), Problem> {
    let readiness = head.state.readiness().await?;
    let stale = readiness.last_sweep_age_ms > STALE_SWEEP_MS;
    let full = readiness.disk_free_bytes.is_some_and(|free| free < LEAST_FREE_BYTES);
    let problem = readiness
        .broken
        .or_else(|| stale.then(|| "the last good sweep is too old".to_owned()))
        .or_else(|| full.then(|| "the disk of the data directory is as good as full".to_owned()));
    let (code, status) = if problem.is_none() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    let ready = Ready {
        status,
        problem,
        last_sweep_age_ms: readiness.last_sweep_age_ms,
        store_failures: readiness.failures,
        database_bytes: readiness.database_bytes,
        disk_free_bytes: readiness.disk_free_bytes,
        webhooks: head.state.webhooks().await?,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok((code, Json(ready)))
}
