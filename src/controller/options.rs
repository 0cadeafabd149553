//! What a controller is given, what it shows of itself, and what it gives back.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    callbacks::Callback,
    checkpoints::{CheckpointOptions, Newest},
    last_report::LastReport,
    policy::{FailurePolicy, HealthPolicy, ScalingPolicy},
    process,
};
use crate::{
    base::{Clock, RunId, Timestamp, limits},
    model::{
        AttemptStatus, ControllerState, EndReason, FirstFailure, NumFailures, ProcessIdentity, StopReport,
        checkpoint::CheckpointView, metrics::MetricValue,
    },
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
    /// Job that it belongs to, for example one of Slurm.
    pub job_id: Option<String>,
    /// Labels.
    pub tags: BTreeMap<String, String>,
    /// What the run is started with, for the record.
    pub settings: Map<String, Value>,
    /// How many workers, and what each needs.
    pub scaling: ScalingPolicy,
    /// How many failures are allowed.
    pub failures: FailurePolicy,
    /// What is watched of a group that runs.
    pub health: HealthPolicy,
    /// Where checkpoints go and which are kept.
    pub checkpoints: CheckpointOptions,
    /// Go on with the run of this id, which has ended, in its own record.
    pub resume: bool,
    /// What watches the run; see [`Callback`].
    pub callbacks: Vec<Arc<dyn Callback>>,
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
    /// Whether the head keeps logs elsewhere, so that it has to be sent those of the workers.
    pub ships_logs: bool,
    /// Where workers reach their session, if they are processes.
    pub session_socket: Option<PathBuf>,
    /// Identity of this process, so that a head on the same host sees its death at once.
    pub process: Option<ProcessIdentity>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl ControllerOptions {
    /// A run of `num_workers` workers with the defaults of everything else.
    #[must_use]
    pub fn new(run_id: RunId, num_workers: u32, data_dir: DataDir, clock: Arc<dyn Clock>) -> Self {
        Self {
            run_id,
            name: None,
            experiment: None,
            job_id: None,
            tags: BTreeMap::new(),
            settings: Map::new(),
            scaling: ScalingPolicy::fixed(num_workers),
            failures: FailurePolicy::default(),
            health: HealthPolicy::default(),
            checkpoints: CheckpointOptions::default(),
            resume: false,
            callbacks: Vec::new(),
            stop_signal: default_stop_signal(),
            grace: limits::GRACE_DEFAULT,
            lease_ttl: limits::LEASE_DEFAULT,
            heartbeat: Duration::from_secs(1),
            data_dir,
            ships_logs: false,
            session_socket: None,
            process: None,
            clock,
        }
    }
}

/// What the controller shows of itself while it works.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerView {
    /// Its state.
    pub state: ControllerState,
    /// One sentence about it.
    pub detail: Option<String>,
    /// Ordinal of the newest attempt.
    pub attempt: u32,
    /// Ranks that run.
    pub workers_alive: usize,
    /// Ranks of the group.
    pub workers: usize,
    /// What the failure budgets were charged with.
    pub failures: NumFailures,
    /// What rank 0 said last.
    pub last: LastReport,
    /// The newest committed checkpoint.
    pub checkpoint: Option<Newest>,
    /// Bytes of checkpoints that are being moved: done, and in all.
    pub moving: Option<(u64, u64)>,
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
    /// The first failure, if it was ended by one.
    pub error: Option<FirstFailure>,
    /// How many attempts it took.
    pub num_attempts: u32,
    /// What its failure budgets were charged with.
    pub num_failures: NumFailures,
    /// The attempts of this controller, oldest first: the newest ones and the first, if there were more than 1,000.
    pub attempts: Vec<AttemptSummary>,
    /// What rank 0 handed over at its end.
    pub return_value: Option<Value>,
    /// How long it took, without what was left to say to the head.
    #[serde(skip)]
    pub took: Duration,
    /// Where it keeps its files.
    pub storage_path: PathBuf,
    /// What was reported with the latest checkpoint and measured of it; the last values of rank 0 if there is none.
    pub metrics: BTreeMap<String, MetricValue>,
    /// The checkpoint that training would go on from.
    pub checkpoint: Option<CheckpointView>,
    /// Those that can be used and are kept, the best first.
    pub best_checkpoints: Vec<CheckpointView>,
    /// Last values of rank 0.
    pub last_metrics: BTreeMap<String, MetricValue>,
    /// Whether the head has the whole record.
    pub delivered: bool,
    /// Where the rest of it is kept, for `trainhead sync`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spools: Vec<PathBuf>,
    /// The exit code for whoever started the run: 0, the first failing rank's, 130 if it was stopped, 75 if it was
    /// preempted and is to be queued again.
    pub exit_code: u8,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptSummary {
    /// 0, 1, 2 …
    pub ordinal: u32,
    /// How many workers it had.
    pub num_workers: u32,
    /// How it ended.
    pub status: AttemptStatus,
    /// Why.
    pub end_reason: EndReason,
    /// One sentence about it.
    pub status_detail: Option<String>,
    /// When its placing began.
    pub start_time_ms: Timestamp,
    /// When nothing of it was left.
    pub end_time_ms: Timestamp,
    /// What became of its processes.
    pub stop_report: Option<StopReport>,
}

/// The default stop signal.
#[must_use]
pub fn default_stop_signal() -> i32 {
    process::parse_signal("SIGTERM").unwrap_or(15)
}
