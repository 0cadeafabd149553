//! What both of Ray's shapes say of a worker in the same way: its devices, its resources, what its process uses.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Attempt, Worker};
use crate::base::{
    host::{GpuStats, WorkerStats},
    limits, number,
};

const MIB: u64 = 1024 * 1024;

/// Resources as Ray has them: numbers by name. What is not a number is left out.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(value_type = Object)]
pub struct RayResources<'a>(pub(super) Option<&'a Map<String, Value>>);

impl Serialize for RayResources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.into_iter().flatten();
        serializer.collect_map(all.filter_map(|(name, value)| Some((name, value.as_f64()?))))
    }
}

/// The process of a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayProcessStats {
    /// CPU time in percent of one core.
    cpu_percent: f64,
    /// Always null, as it is in Ray's own answers.
    mem: Option<Vec<i64>>,
    /// Its memory.
    memory_info: RayMemoryInfo,
}

/// The memory of a process.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct RayMemoryInfo {
    /// Resident, bytes.
    rss: u64,
    /// Virtual, bytes.
    vms: u64,
    /// Always null.
    pfaults: Option<i64>,
    /// Always null.
    pageins: Option<i64>,
}

/// A GPU that a worker uses.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayGpu<'a> {
    /// Its identity.
    uuid: &'a str,
    /// Its place on the host.
    index: u32,
    /// Its model.
    name: &'a str,
    /// How busy it is, percent.
    utilization_gpu: Option<f64>,
    /// Memory in use, MiB.
    memory_used: f64,
    /// All its memory, MiB.
    memory_total: f64,
    /// What the worker's own process uses of it.
    process_info: RayGpuProcess,
}

/// What one process uses of a GPU.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayGpuProcess {
    /// Its pid.
    pid: u32,
    /// Memory in use, MiB.
    gpu_memory_usage: u64,
}

/// What a worker's process uses right now; null where that is not known.
pub(super) fn process_stats(stats: Option<&WorkerStats>) -> Option<RayProcessStats> {
    let process = stats?.process_stats?;
    Some(RayProcessStats {
        cpu_percent: process.cpu_percent,
        mem: None,
        memory_info: RayMemoryInfo {
            rss: process.rss_bytes,
            vms: process.vms_bytes,
            pfaults: None,
            pageins: None,
        },
    })
}

/// The GPUs that a worker's process uses, each with what that process uses of it.
pub(super) fn gpus<'a>(worker: &Worker, stats: Option<&'a WorkerStats>) -> Vec<RayGpu<'a>> {
    let of_worker = |gpu: &'a GpuStats| {
        let process = gpu.processes.iter().find(|p| Some(p.pid) == worker.pid)?;
        Some(RayGpu {
            uuid: &gpu.uuid,
            index: gpu.index,
            name: &gpu.name,
            utilization_gpu: gpu.utilization_percent,
            memory_used: mib(gpu.memory_used_bytes),
            memory_total: mib(gpu.memory_total_bytes),
            process_info: RayGpuProcess {
                pid: process.pid,
                gpu_memory_usage: process.memory_used_bytes / MIB,
            },
        })
    };
    stats.into_iter().flat_map(|s| &s.gpus).filter_map(of_worker).collect()
}

/// One entry for each worker that an attempt asked for, empty where it is not placed.
pub(super) fn asked_for(attempt: &Attempt) -> impl Iterator<Item = RayResources<'_>> {
    // Whatever number stands in the database, no more is made of it than a group may have.
    (0..attempt.num_workers)
        .take(limits::WORKERS)
        .map(|rank| RayResources(attempt.workers.get(&rank).map(|w| &w.resources)))
}

/// The devices of a worker that have numbers; Ray knows no other ids.
pub(super) fn gpu_ids(worker: &Worker) -> Vec<i64> {
    worker.gpu_ids.iter().filter_map(|id| id.parse().ok()).collect()
}

/// Whole MiB, which Ray nevertheless writes as a float.
fn mib(bytes: u64) -> f64 {
    number::float(i64::try_from(bytes / MIB).unwrap_or(i64::MAX))
}
