//! Identity of a process on a host, so that a recycled pid is never taken for the process that had it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Boot, pid namespace, pid and start time together name one process for ever (Linux, `/proc/<pid>/stat` field 22).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// `/proc/sys/kernel/random/boot_id` of its host.
    #[schema(max_length = 128)]
    pub boot_id: String,
    /// Inode of its pid namespace.
    pub pid_namespace: u64,
    /// Process id in that namespace.
    #[schema(minimum = 1, maximum = 4_194_304)]
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Host name, for people.
    #[schema(max_length = 256)]
    pub host: String,
}
