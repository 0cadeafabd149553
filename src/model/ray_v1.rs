//! A run in the shape of Ray Train V1's state API, field for field in Ray's order: a mapping, nothing is decided here.

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    RunRecord, RunStatus, Worker, WorkerStatus,
    commands::Dataset,
    ray_job::RayJobDetails,
    ray_worker::{RayGpu, RayProcessStats, RayResources, asked_for, gpu_ids, gpus, process_stats},
    view::StatsOf,
};
use crate::base::Timestamp;

/// A run in the shape of Ray Train V1, which knows the newest attempt only.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RayV1Run<'a> {
    /// Label for people.
    name: &'a str,
    /// Identity.
    id: &'a str,
    /// Job it belongs to; empty if none.
    job_id: &'a str,
    /// The actor that drives it.
    controller_actor_id: &'a str,
    /// Workers of the newest attempt, by world rank.
    workers: Vec<RayV1Worker<'a>>,
    /// Data sets that it reads.
    datasets: Vec<RayV1Dataset<'a>>,
    /// RUNNING, FINISHED, ERRORED or ABORTED.
    run_status: &'static str,
    /// Why, in one sentence; empty if nothing is said.
    status_detail: &'a str,
    /// When it started.
    start_time_ms: Timestamp,
    /// When it ended; null while it lives.
    end_time_ms: Option<Timestamp>,
    /// One entry for each worker that the newest attempt asked for, empty where nothing is known.
    resources: Vec<RayResources<'a>>,
    /// Its job.
    job_details: RayJobDetails<'a>,
}

/// A worker in the shape of Ray Train V1.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RayV1Worker<'a> {
    /// Identity as an actor.
    actor_id: &'a str,
    /// Rank in the group.
    world_rank: u32,
    /// Rank on its node.
    local_rank: u32,
    /// Rank of its node.
    node_rank: u32,
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
    resources: RayResources<'a>,
    /// What its process uses right now; null where that is not known.
    #[serde(rename = "processStats")]
    process_stats: Option<RayProcessStats>,
    /// The GPUs that its process uses right now.
    gpus: Vec<RayGpu<'a>>,
}

/// A data set in the shape of Ray Train V1.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct RayV1Dataset<'a> {
    /// Its role in the run.
    name: &'a str,
    /// Its identity.
    dataset_uuid: &'a str,
    /// Its own name.
    dataset_name: Option<&'a str>,
}

impl<'a> RayV1Run<'a> {
    /// The run, whose workers use right now what `stats` says.
    #[must_use]
    pub fn of(record: &'a RunRecord, stats: &'a StatsOf) -> Self {
        let run = &record.run;
        let newest = record.newest_attempt();
        Self {
            name: &run.name,
            id: run.id.as_str(),
            job_id: run.job_id.as_deref().unwrap_or_default(),
            controller_actor_id: record.controller.actor_id.as_str(),
            workers: newest
                .into_iter()
                .flat_map(|a| a.workers.values().map(|w| RayV1Worker::of(a.ordinal, w, stats)))
                .collect(),
            datasets: run.datasets.iter().map(dataset).collect(),
            run_status: match run.status() {
                RunStatus::Started => "RUNNING",
                ended @ (RunStatus::Finished | RunStatus::Errored | RunStatus::Aborted) => ended.as_str(),
            },
            status_detail: run.status_detail.as_deref().unwrap_or_default(),
            start_time_ms: run.start_time,
            end_time_ms: run.end_time,
            resources: newest.into_iter().flat_map(asked_for).collect(),
            job_details: RayJobDetails::of(record),
        }
    }
}

impl<'a> RayV1Worker<'a> {
    fn of(ordinal: u32, worker: &'a Worker, stats: &'a StatsOf) -> Self {
        let stats = stats.get(&(ordinal, worker.world_rank));
        Self {
            actor_id: worker.actor_id.as_str(),
            world_rank: worker.world_rank,
            local_rank: worker.local_rank,
            node_rank: worker.node_rank,
            node_id: &worker.node_id,
            node_ip: &worker.node_ip,
            pid: worker.pid.unwrap_or(0),
            gpu_ids: gpu_ids(worker),
            status: worker.status,
            resources: RayResources(Some(&worker.resources)),
            process_stats: process_stats(stats),
            gpus: gpus(worker, stats),
        }
    }
}

fn dataset(dataset: &Dataset) -> RayV1Dataset<'_> {
    let Dataset { name, dataset_name, dataset_uuid } = dataset;
    RayV1Dataset { name, dataset_uuid, dataset_name: dataset_name.as_deref() }
}
