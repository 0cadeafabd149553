//! A run in the shape of Ray Train V2's state API, field for field in Ray's order: a mapping, nothing is decided here.
//! Where Ray's words hide the truth (a resized attempt is FINISHED), the nearest true word stands instead.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Attempt, AttemptStatus, EndReason, Phase, RunRecord, Worker, WorkerStatus,
    ray_job::RayJobDetails,
    ray_settings::RayRunSettings,
    ray_worker::{RayGpu, RayProcessStats, RayResources, asked_for, gpu_ids, gpus, process_stats},
    view::StatsOf,
};
use crate::base::Timestamp;

/// A run in the shape of Ray Train V2.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RayV2Run<'a> {
    /// Identity.
    id: &'a str,
    /// Label for people.
    name: &'a str,
    /// Job it belongs to; empty if none.
    job_id: &'a str,
    /// The actor that drives it.
    controller_actor_id: &'a str,
    /// Its phase: Ray's words are ours.
    status: Phase,
    /// Why, in one sentence.
    status_detail: Option<&'a str>,
    /// When it started, UNIX nanoseconds.
    start_time_ns: i64,
    /// When it ended, UNIX nanoseconds; null while it lives.
    end_time_ns: Option<i64>,
    /// Always null.
    controller_log_file_path: Option<&'a str>,
    /// Versions of frameworks.
    framework_versions: &'a BTreeMap<String, String>,
    /// What it was started with.
    run_settings: RayRunSettings<'a>,
    /// Its attempts, oldest first.
    attempts: Vec<RayV2Attempt<'a>>,
    /// Its job.
    job_details: RayJobDetails<'a>,
}

/// An attempt in the shape of Ray Train V2.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RayV2Attempt<'a> {
    /// Its run.
    run_id: &'a str,
    /// Identity.
    attempt_id: &'a str,
    /// Where it is. One that was resized, preempted, stopped or lost shows ABORTED, whatever its controller said.
    status: AttemptStatus,
    /// Why, with the reason of its end in front.
    status_detail: Option<String>,
    /// When its placing began, UNIX nanoseconds.
    start_time_ns: i64,
    /// When it ended, UNIX nanoseconds; null while it lives.
    end_time_ns: Option<i64>,
    /// One entry for each worker that it asked for, empty where nothing is known.
    resources: Vec<RayV2Resources<'a>>,
    /// Its workers by world rank.
    workers: Vec<RayV2Worker<'a>>,
}

/// Resources, wrapped as Ray Train V2 does.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct RayV2Resources<'a> {
    /// Numbers by name.
    resources: RayResources<'a>,
}

/// A worker in the shape of Ray Train V2.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RayV2Worker<'a> {
    /// Rank in the group.
    world_rank: u32,
    /// Rank on its node.
    local_rank: u32,
    /// Rank of its node.
    node_rank: u32,
    /// Identity as an actor.
    actor_id: &'a str,
    /// Identity of its node.
    node_id: &'a str,
    /// Address of its node.
    node_ip: &'a str,
    /// Process id; 0 for a thread.
    pid: u32,
    /// Devices that have numbers.
    gpu_ids: Vec<i64>,
    /// ALIVE or DEAD.
    status: WorkerStatus,
    /// What it asked for.
    resources: RayV2Resources<'a>,
    /// Where its log is, relative to the head's address.
    log_file_path: String,
    /// What its process uses right now; null where that is not known.
    #[serde(rename = "processStats")]
    process_stats: Option<RayProcessStats>,
    /// The GPUs that its process uses right now.
    gpus: Vec<RayGpu<'a>>,
}

impl<'a> RayV2Run<'a> {
    /// The run, whose files lie in `storage_path` and whose workers use right now what `stats` says.
    #[must_use]
    pub fn of(record: &'a RunRecord, storage_path: &'a str, stats: &'a StatsOf) -> Self {
        let run = &record.run;
        Self {
            id: run.id.as_str(),
            name: &run.name,
            job_id: run.job_id.as_deref().unwrap_or_default(),
            controller_actor_id: record.controller.actor_id.as_str(),
            status: run.phase,
            status_detail: run.status_detail.as_deref(),
            start_time_ns: nanoseconds(run.start_time),
            end_time_ns: run.end_time.map(nanoseconds),
            controller_log_file_path: None,
            framework_versions: &run.framework_versions,
            run_settings: RayRunSettings::of(record, storage_path),
            attempts: record.attempts.iter().map(|a| RayV2Attempt::of(record, a, stats)).collect(),
            job_details: RayJobDetails::of(record),
        }
    }
}

impl<'a> RayV2Attempt<'a> {
    fn of(record: &'a RunRecord, attempt: &'a Attempt, stats: &'a StatsOf) -> Self {
        let run_id = record.run.id.as_str();
        Self {
            run_id,
            attempt_id: attempt.id.as_str(),
            status: status(attempt),
            status_detail: status_detail(attempt),
            start_time_ns: nanoseconds(attempt.start_time),
            end_time_ns: attempt.end_time.map(nanoseconds),
            resources: asked_for(attempt).map(|resources| RayV2Resources { resources }).collect(),
            workers: attempt
                .workers
                .values()
                .map(|w| RayV2Worker::of(run_id, attempt.ordinal, w, stats))
                .collect(),
        }
    }
}

impl<'a> RayV2Worker<'a> {
    fn of(run_id: &str, ordinal: u32, worker: &'a Worker, stats: &'a StatsOf) -> Self {
        let stats = stats.get(&(ordinal, worker.world_rank));
        Self {
            world_rank: worker.world_rank,
            local_rank: worker.local_rank,
            node_rank: worker.node_rank,
            actor_id: worker.actor_id.as_str(),
            node_id: &worker.node_id,
            node_ip: &worker.node_ip,
            pid: worker.pid.unwrap_or(0),
            gpu_ids: gpu_ids(worker),
            status: worker.status,
            resources: RayV2Resources { resources: RayResources(Some(&worker.resources)) },
            log_file_path: format!("api/train/runs/{run_id}/logs/{ordinal}/{}", worker.world_rank),
            process_stats: process_stats(stats),
            gpus: gpus(worker, stats),
        }
    }
}

/// The status that an attempt shows: its reason says more than its status, which its controller chose beside it.
fn status(attempt: &Attempt) -> AttemptStatus {
    use EndReason as R;
    match attempt.end_reason {
        Some(R::Resized | R::Preempted | R::Stopped | R::ControllerLost) => AttemptStatus::Aborted,
        Some(R::WorkerFailed | R::StartFailed | R::Hung | R::CallbackFailed)
            if attempt.status == AttemptStatus::Finished =>
        {
            AttemptStatus::Errored
        }
        Some(R::Completed | R::WorkerFailed | R::StartFailed | R::Hung | R::CallbackFailed) | None => {
            attempt.status
        }
    }
}

/// Ray has no field for the reason of an end, so it stands in front of the detail, if that does not begin with it.
fn status_detail(attempt: &Attempt) -> Option<String> {
    let reason = attempt.end_reason.filter(|r| *r != EndReason::Completed);
    match (reason, &attempt.status_detail) {
        (Some(reason), Some(detail)) if !detail.starts_with(reason.as_str()) => {
            Some(format!("{reason}: {detail}"))
        }
        (Some(reason), None) => Some(reason.to_string()),
        (_, detail) => detail.clone(),
    }
}

fn nanoseconds(time: Timestamp) -> i64 {
    time.as_ms().saturating_mul(1_000_000)
}
