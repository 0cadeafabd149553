//! The first failure of a run: which rank, how, and what it said last.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::Timestamp;

/// The cause of a failed attempt: the exit that came first by the controller's own clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstFailure {
    /// World rank; none when no rank is to blame.
    pub rank: Option<u32>,
    /// Ordinal of the attempt.
    pub attempt: u32,
    /// Process id.
    pub pid: Option<u32>,
    /// Host name.
    pub host: Option<String>,
    /// Exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// Name of the signal that killed it.
    pub signal: Option<String>,
    /// The failure in one sentence.
    pub message: String,
    /// That rank's last log lines.
    #[schema(max_items = 200)]
    pub log_tail: Vec<String>,
    /// When.
    pub time_ms: Timestamp,
    /// What failed because of it, in order.
    #[schema(max_items = 10_000)]
    pub consequences: Vec<Consequence>,
}

/// A failure that came after the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Consequence {
    /// World rank.
    pub rank: u32,
    /// Exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// Name of the signal that killed it.
    pub signal: Option<String>,
}
