//! Figures for Prometheus. Names begin with `trainhead_` and end in their unit; requests are counted by the route's
//! pattern and never by its path, so that their number is bounded.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::Histogram,
    },
    registry::{Registry, Unit},
};

use super::{problem::Problem, router::Head};
use crate::{
    base::number::{self, float},
    model::RunStatus,
    state::StateFigures,
};

/// Upper bounds of the classes of answer times, s.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// What is counted of requests.
#[derive(Clone, Debug)]
pub(super) struct HttpFigures {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

impl Default for HttpFigures {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl HttpFigures {
    /// Counts an answer. Of a stream the time until it began counts.
    pub(super) fn count(&self, method: &'static str, route: &str, status: StatusCode, took: Duration) {
        let route = route.to_owned();
        self.seconds.get_or_create(&RouteLabels { route: route.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route, status: status.as_u16() }).inc();
    }
}

/// Figures in the text format of OpenMetrics, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "head",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show_figures(State(head): State<Head>) -> Result<Response, Problem> {
    let mut registry = Registry::with_prefix("trainhead");
    let HttpFigures { requests, seconds } = head.figures.clone();
    registry.register("http_requests", "Answered requests", requests);
    registry.register_with_unit(
        "http_request_duration",
        "Time until the answer began",
        Unit::Seconds,
        seconds,
    );
    state(&mut registry, &head.state.figures());
    let readiness = head.state.readiness().await?;
    gauge(
        &mut registry,
        "database",
        "Size of the database",
        Some(Unit::Bytes),
        float_of(readiness.database_bytes),
    );
    if let Some(free) = readiness.disk_free_bytes {
        gauge(
            &mut registry,
            "disk_free",
            "Free space for the data directory",
            Some(Unit::Bytes),
            float_of(free),
        );
    }
    let ready = if readiness.broken.is_none() { 1.0 } else { 0.0 };
    gauge(&mut registry, "store_writable", "1 if the last commit succeeded", None, ready);
    let mut out = String::new();
    text::encode(&mut out, &registry).map_err(|e| Problem::internal(&e.to_string()))?;
    let mut response = Response::new(out.into());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// What the state counts. Destructured, so that no figure is forgotten.
fn state(registry: &mut Registry, figures: &StateFigures) {
    let StateFigures {
        commands,
        commits,
        commit_seconds,
        points,
        seals,
        metric_memory_bytes,
        events,
        stream_resets,
        streams,
        purged,
        runs,
        trashed,
        failures,
        sweep_age_seconds,
        waiting,
        mailbox,
    } = *figures;
    let by_status: Family<StatusLabels, prometheus_client::metrics::gauge::Gauge> = Family::default();
    for (status, n) in RunStatus::ALL.iter().zip(runs) {
        by_status.get_or_create(&StatusLabels { status: status.as_str() }).set(number::count(n));
    }
    registry.register("runs", "Runs by status, without those in the trash", by_status);
    for (name, help, n) in [
        ("commands", "Commands that the state decided", commands),
        ("commits", "Transactions that were committed", commits),
        ("metric_points", "Metric points that were taken", points),
        ("metric_seals", "Streams of metrics that were compressed", seals),
        ("events", "Entries of trails", events),
        ("stream_resets", "Streams of events that were too slow and began anew", stream_resets),
        ("purged_runs", "Runs that were deleted for good", purged),
        ("store_failures", "Commits and sweeps that failed", u64::try_from(failures).unwrap_or(0)),
    ] {
        registry.register(name, help, ConstCounter::new(n));
    }
    let commit_time = ConstCounter::new(commit_seconds);
    registry.register_with_unit("commit_duration", "Time spent in commits", Unit::Seconds, commit_time);
    let count = |n: usize| float(number::count(n));
    gauge(registry, "trashed_runs", "Runs in the trash", None, count(trashed));
    gauge(registry, "streams", "Streams of events that are open", None, count(streams));
    let memory = "Memory of the newest metric points of runs";
    gauge(registry, "metric_memory", memory, Some(Unit::Bytes), count(metric_memory_bytes));
    gauge(registry, "waiting_commands", "Commands that wait for the state", None, count(waiting));
    gauge(registry, "waiting_commands_limit", "Commands that may wait", None, count(mailbox));
    gauge(registry, "sweep_age", "Age of the last good sweep", Some(Unit::Seconds), sweep_age_seconds);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, value: f64) {
    let gauge = ConstGauge::new(value);
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge),
        None => registry.register(name, help, gauge),
    }
}

fn float_of(bytes: u64) -> f64 {
    float(i64::try_from(bytes).unwrap_or(i64::MAX))
}
