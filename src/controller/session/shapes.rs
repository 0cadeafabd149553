//! What is said in a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{exchange::Reporting, standing::Notice};
use crate::{
    base::{Invalid, RunId, Timestamp},
    controller::checkpoints::{HandedShard, Newest, Usable},
};

/// What does not change while a run lives.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// The run.
    pub run_id: RunId,
    /// Its name.
    pub run_name: String,
    /// Its experiment.
    pub experiment: Option<String>,
    /// Where the run keeps its files.
    pub storage_path: PathBuf,
    /// Time between the stop signal and SIGKILL, ms.
    pub grace_period_ms: i64,
    /// What the user configured.
    pub config: Map<String, Value>,
}

/// What a worker is told about itself.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// What does not change.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// Size of the group.
    pub world_size: u32,
    /// World rank.
    pub rank: u32,
    /// Rank on its node.
    pub local_rank: u32,
    /// How many ranks its node has.
    pub local_world_size: u32,
    /// Rank of its node.
    pub node_rank: u32,
    /// Ordinal of the attempt.
    pub attempt: u32,
    /// How many failed attempts came before.
    pub restart_count: u32,
    /// Sweep trial; none in training.
    pub trial: Option<String>,
    /// When a report returns.
    pub reporting: Reporting,
    /// What the attempt goes on from: the newest checkpoint that was whole when it began.
    pub checkpoint: Option<Usable>,
    /// Whether the run is to stop.
    pub stop: bool,
    /// What is to be known before the group is ended although it does well.
    pub preemption: Option<Notice>,
}

/// One report of a worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerReport {
    /// A number that this client uses for no other report: one that is sent again is then not taken twice. Clients count
    /// from a random number, since a rank may be several programs one after the other.
    #[serde(default)]
    pub seq: Option<u64>,
    /// Step; the report's index if missing.
    #[serde(default)]
    pub step: Option<u64>,
    /// When; now if missing.
    #[serde(default)]
    pub time_ms: Option<Timestamp>,
    /// Values; nested objects are flattened with `/`.
    pub metrics: Map<String, Value>,
    /// This rank's part of a checkpoint of this step.
    #[serde(default)]
    pub checkpoint: Option<HandedShard>,
}

/// The answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReportAnswer {
    /// The worker is to leave its training function.
    pub stop: bool,
    /// The step of a report that names none: the count of this rank's reports over all attempts, which goes on behind
    /// the checkpoint's step when an attempt goes on from one.
    pub report_index: u64,
    /// What is to be known before the group is ended although it does well.
    pub preemption: Option<Notice>,
    /// The newest checkpoint of the run that is whole.
    pub checkpoint: Option<Newest>,
}

/// Why a report was not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// A value cannot be stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such rank.
    #[error("the group has {world_size} ranks, there is no rank {rank}")]
    NoSuchRank {
        /// The rank that reported.
        rank: u32,
        /// Size of the group.
        world_size: u32,
    },
    /// What was to become of a checkpoint did not; a sentence.
    #[error("{0}")]
    Checkpoint(String),
}
