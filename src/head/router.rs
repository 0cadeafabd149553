//! The route table: every route on one screen, and the OpenAPI document that is made from it.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{Method, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    assets, assets::Assets, checkpoints, controllers, docs, figures, figures::HttpFigures, guard,
    guard::AllowedHosts, health, log_search, logs, metrics, people, places, problem::Problem, ray, runs, sse,
};
use crate::state::StateHandle;

/// What the head needs.
#[derive(Clone, Debug)]
pub struct HeadOptions {
    /// The state that it serves.
    pub state: StateHandle,
    /// Names under which it may be called.
    pub hosts: AllowedHosts,
    /// Where a proxy shows this head, `/` or `/ml/trainhead/`.
    pub base_path: String,
    /// The dashboard's files.
    pub assets: Assets,
    /// Streams end when this is cancelled.
    pub stop: CancellationToken,
}

/// What every handler has at hand.
pub(super) type Head = Arc<Service>;

/// The head as its handlers see it.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) state: StateHandle,
    pub(super) hosts: AllowedHosts,
    pub(super) base_path: String,
    pub(super) assets: Assets,
    pub(super) stop: CancellationToken,
    pub(super) figures: HttpFigures,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "TrainHead",
        description = "Starts, supervises, records and shows machine-learning training runs. Times are UNIX \
            milliseconds. Unknown fields of a request are refused by name; unknown fields of an answer must be \
            ignored. Errors are RFC 9457 problems."
    ),
    tags(
        (name = "read", description = "For whoever looks at runs."),
        (name = "controller", description = "For controllers: small, idempotent verbs that can be retried."),
        (name = "people", description = "What people may ask of a run."),
        (name = "head", description = "The head itself."),
    )
)]
struct Api;

fn api() -> OpenApiRouter<Head> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(runs::list_runs, runs::register_run))
        .routes(routes!(runs::show_run, people::annotate_run, people::trash_run))
        .routes(routes!(runs::show_evidence))
        .routes(routes!(runs::list_events))
        .routes(routes!(people::stop_run))
        .routes(routes!(people::restore_run))
        .routes(routes!(people::collect_garbage))
        .routes(routes!(places::list_experiments))
        .routes(routes!(places::list_nodes))
        .routes(routes!(metrics::list_metrics))
        .routes(routes!(metrics::show_series))
        .routes(routes!(metrics::query_metrics))
        .routes(routes!(checkpoints::list_checkpoints))
        .routes(routes!(checkpoints::record_checkpoint))
        .routes(routes!(checkpoints::pin_checkpoint, checkpoints::unpin_checkpoint))
        .routes(routes!(logs::list_logs))
        .routes(routes!(logs::read_log, logs::append_log))
        .routes(routes!(log_search::search_log))
        .routes(routes!(sse::follow_events))
        .routes(routes!(ray::list_ray_v1_runs))
        .routes(routes!(ray::list_ray_v2_runs))
        .routes(routes!(controllers::set_state))
        .routes(routes!(controllers::begin_attempt))
        .routes(routes!(controllers::run_attempt))
        .routes(routes!(controllers::change_workers))
        .routes(routes!(controllers::end_attempt))
        .routes(routes!(controllers::report_metrics))
        .routes(routes!(controllers::send_heartbeats))
        .routes(routes!(controllers::end_run))
        .routes(routes!(health::check_health))
        .routes(routes!(health::check_readiness))
        .routes(routes!(figures::show_figures))
}

/// The OpenAPI document, as it is served and committed.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().into_openapi()
}

/// The whole service.
pub fn router(options: HeadOptions) -> Router {
    let HeadOptions { state, hosts, base_path, assets, stop } = options;
    let figures = HttpFigures::default();
    let head = Arc::new(Service { state, hosts, base_path, assets, stop, figures });
    let (routes, document) = api().split_for_parts();
    // Each connection has a copy of the router, and so of what its handlers hold.
    let document = Arc::new(document);
    routes
        .route("/openapi.json", get(async || Json(document)))
        .merge(docs::pages())
        .merge(assets::pages())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        // As one, since each layer of its own is one more allocation a request.
        .layer((
            axum::middleware::from_fn_with_state(Arc::clone(&head), guard::guard),
            CatchPanicLayer::custom(panicked),
        ))
        .with_state(head)
}

async fn no_route(head: State<Head>, request: Request) -> Response {
    let accepts = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if request.method() == Method::GET && accepts.contains("text/html") {
        return assets::not_found(head).await.into_response();
    }
    Problem::no_route(request.uri().path()).into_response()
}

/// A panic in a handler is our fault and ends its request, not the head.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    Problem::internal("a handler panicked").into_response()
}

async fn no_method(method: Method) -> impl IntoResponse {
    Problem::no_method(method.as_str())
}
