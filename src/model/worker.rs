//! Workers: one rank of one attempt.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::closed_enum::closed_enum;
use crate::base::{ActorId, Timestamp};

closed_enum! {
    /// Whether a worker lives.
    WorkerStatus {
        /// It runs, as far as is known.
        Alive = "ALIVE",
        /// It ended, or its controller is gone.
        Dead = "DEAD",
    }
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// Exit code, if it exited by itself.
    #[serde(default)]
    pub code: Option<i32>,
    /// Name of the signal that killed it, `SIGKILL`.
    #[serde(default)]
    pub signal: Option<String>,
    /// When, by the clock of whoever saw it.
    pub time_ms: Timestamp,
    /// Why, where the exit itself does not say: `controller lost`, `stopped`.
    #[serde(default)]
    pub cause: Option<String>,
}

/// The cause that is written when a controller is gone and its workers can no longer be known about.
pub const CONTROLLER_LOST: &str = "controller lost";

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Identity as an actor.
    pub actor_id: ActorId,
    /// Rank in the group, from 0.
    pub world_rank: u32,
    /// Rank on its node, from 0.
    pub local_rank: u32,
    /// Rank of its node, from 0.
    pub node_rank: u32,
    /// Identity of its node.
    pub node_id: String,
    /// Address of its node.
    pub node_ip: String,
    /// Process id on its node; none for a thread.
    pub pid: Option<u32>,
    /// Devices it was given.
    pub gpu_ids: Vec<String>,
    /// Whether it lives.
    pub status: WorkerStatus,
    /// How it ended.
    pub exit: Option<Exit>,
    /// What it asked for, `{"CPU": 1.0}`.
    pub resources: serde_json::Map<String, serde_json::Value>,
}
