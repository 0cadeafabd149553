//! Ray's `JobDetails`. A run of TrainHead is a job of its own, whose driver is the run's controller.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Actor, RunRecord, RunStatus, settings::Settings};
use crate::base::Timestamp;

/// The job that a run belongs to, in Ray's shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayJobDetails<'a> {
    /// Always `DRIVER`: the run was started by its own controller.
    r#type: &'static str,
    /// Its id.
    job_id: Option<&'a str>,
    /// Always null.
    submission_id: Option<&'a str>,
    /// The controller's process; null if it has none that is known.
    driver_info: Option<RayDriverInfo<'a>>,
    /// RUNNING, SUCCEEDED, FAILED or STOPPED: truthful, where Ray says SUCCEEDED of a driver that crashed.
    status: &'static str,
    /// The command; empty if it is not known.
    entrypoint: String,
    /// Always null.
    message: Option<&'a str>,
    /// Always null.
    error_type: Option<&'a str>,
    /// When it started, UNIX milliseconds.
    #[schema(value_type = Option<i64>)]
    start_time: Option<Timestamp>,
    /// When it ended, UNIX milliseconds; null while it lives.
    #[schema(value_type = Option<i64>)]
    end_time: Option<Timestamp>,
    /// The run's tags.
    metadata: &'a BTreeMap<String, String>,
    /// Always empty.
    #[schema(value_type = Object)]
    runtime_env: BTreeMap<String, String>,
    /// Always null.
    driver_agent_http_address: Option<&'a str>,
    /// Always null.
    driver_node_id: Option<&'a str>,
    /// Always null.
    driver_exit_code: Option<i32>,
}

/// The process of a controller, in Ray's shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayDriverInfo<'a> {
    /// The controller's id.
    id: &'a str,
    /// Its host, by name.
    node_ip_address: &'a str,
    /// Its pid, as text.
    pid: String,
}

impl<'a> RayJobDetails<'a> {
    pub(super) fn of(record: &'a RunRecord) -> Self {
        let (run, controller) = (&record.run, &record.controller);
        Self {
            r#type: "DRIVER",
            job_id: run.job_id.as_deref(),
            submission_id: None,
            driver_info: controller.process.as_ref().map(|process| RayDriverInfo {
                id: controller.actor_id.as_str(),
                node_ip_address: &process.host,
                pid: process.pid.to_string(),
            }),
            status: status(run.status(), run.ended_by),
            entrypoint: entrypoint(&run.settings),
            message: None,
            error_type: None,
            start_time: Some(run.start_time),
            end_time: run.end_time,
            metadata: &run.tags,
            runtime_env: BTreeMap::new(),
            driver_agent_http_address: None,
            driver_node_id: None,
            driver_exit_code: None,
        }
    }
}

fn status(status: RunStatus, ended_by: Option<Actor>) -> &'static str {
    match status {
        RunStatus::Started => "RUNNING",
        RunStatus::Finished => "SUCCEEDED",
        RunStatus::Errored => "FAILED",
        // A controller that is gone did not stop because somebody asked it to.
        RunStatus::Aborted if ended_by == Some(Actor::Reconciler) => "FAILED",
        RunStatus::Aborted => "STOPPED",
    }
}

fn entrypoint(settings: &Settings) -> String {
    match settings.get("command") {
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Some(Value::String(command)) => command,
        _ => String::new(),
    }
}
