//! What a host has and what its processes use right now: shapes only, measured by `sampler`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one process uses right now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProcessStats {
    /// CPU time since the look before, in percent of one core; 0 at the first look.
    pub cpu_percent: f64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Virtual memory.
    pub vms_bytes: u64,
}

/// A GPU and what is used of it right now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuStats {
    /// Its place on the host, from 0.
    pub index: u32,
    /// Its identity, `GPU-…`.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// How busy it is; null if the driver does not say.
    pub utilization_percent: Option<f64>,
    /// Memory in use.
    pub memory_used_bytes: u64,
    /// All its memory.
    pub memory_total_bytes: u64,
    /// The processes that use it.
    pub processes: Vec<GpuProcess>,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuProcess {
    /// Its pid on the host.
    pub pid: u32,
    /// GPU memory it uses; 0 if the driver does not say.
    pub memory_used_bytes: u64,
}

/// A host's devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostDevices {
    /// Logical CPUs that this process may use.
    pub cpu_count: u32,
    /// Their model.
    pub cpu_model: String,
    /// How busy all of them together are, 0 to 100.
    pub cpu_percent: f64,
    /// All memory.
    pub memory_total_bytes: u64,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: u64,
    /// GPUs; empty where there is no driver.
    pub gpus: Vec<GpuStats>,
}

/// What a worker's process uses right now, on its CPU and its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStats {
    /// Its process; null if it is not on the head's host or has ended.
    pub process_stats: Option<ProcessStats>,
    /// The GPUs that its process uses.
    pub gpus: Vec<GpuStats>,
}
