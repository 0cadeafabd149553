//! What a controller is given, what it shows of itself, and what it gives back.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{last_report::LastReport, policy::FailurePolicy, process};
use crate::{
    base::{Clock, RunId},
    model::{ControllerState, ProcessIdentity, metrics::MetricValue},
    state::DataDir,
};

/// What a controller needs to drive a run.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Identity of the run.
    pub run_id: RunId,
    /// Name; made up if missing.
    pub name: Option<String>,
    /// Experiment.
    pub experiment: Option<String>,
    /// Labels.
    pub tags: BTreeMap<String, String>,
    /// What the run is started with, for the record.
    pub settings: Map<String, Value>,
    /// Size of the group.
    pub num_workers: u32,
    /// How many failures are allowed.
    pub failures: FailurePolicy,
    /// The stop signal.
    pub stop_signal: i32,
    /// Time between the stop signal and SIGKILL.
    pub grace: Duration,
    /// How long a contact vouches for the controller.
    pub lease_ttl: Duration,
    /// How often it says that it lives.
    pub heartbeat: Duration,
    /// Where the run keeps its files.
    pub data_dir: DataDir,
    /// Where workers reach their session, if they are processes.
    pub session_socket: Option<PathBuf>,
    /// Identity of this process, so that a head on the same host sees its death at once.
    pub process: Option<ProcessIdentity>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

/// What the controller shows of itself while it works.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerView {
    /// Its state.
    pub state: ControllerState,
    /// Ordinal of the newest attempt.
    pub attempt: u32,
    /// Ranks that run.
    pub workers_alive: usize,
    /// Ranks of the group.
    pub workers: usize,
    /// How often workers failed.
    pub failures: u32,
    /// What rank 0 said last.
    pub last: LastReport,
    /// The run's name as the head has it, once it is registered.
    pub registered: Option<String>,
}

/// How a run went.
#[derive(Clone, Debug, Serialize)]
pub struct TrainResult {
    /// The run.
    pub run_id: RunId,
    /// FINISHED, ERRORED or ABORTED.
    pub run_status: &'static str,
    /// Why, in one sentence.
    pub status_detail: Option<String>,
    /// How many attempts it took.
    pub num_attempts: u32,
    /// How long it took, without what was left to say to the head.
    #[serde(skip)]
    pub took: Duration,
    /// Where it keeps its files.
    pub storage_path: PathBuf,
    /// Last values of rank 0.
    pub last_metrics: BTreeMap<String, MetricValue>,
    /// Whether the head has the whole record.
    pub delivered: bool,
    /// The exit code for whoever started the run: 0, the first failing rank's, or 130.
    pub exit_code: u8,
}

/// The default stop signal.
#[must_use]
pub fn default_stop_signal() -> i32 {
    process::parse_signal("SIGTERM").unwrap_or(15)
}
