//! The bodies of the public verbs: one definition each, for the HTTP routes, for the client of a remote head and for
//! controllers in process. `check` holds the rules that a type alone cannot.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    AttemptStatus, ControllerState, EndReason, Exit, FirstFailure, ProcessIdentity, RunStatus, WorkerStatus,
    names::{check_document, check_name, check_tags},
};
use crate::base::{ActorId, AttemptId, Invalid, RunId, Secret, Timestamp, limits, number};

/// Registers a run, or takes it over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRun {
    /// Id of the run; made (UUIDv7) if missing. Give one to be able to retry a registration.
    #[serde(default)]
    pub id: Option<RunId>,
    /// Name for people; made up if missing. Need not be unique.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub name: Option<String>,
    /// Id of the job that the run belongs to, for example a Slurm job.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub job_id: Option<String>,
    /// Experiment that the run belongs to.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub experiment: Option<String>,
    /// Who drives the run.
    pub controller: ControllerIdentity,
    /// What the run was started with. At most 1 MiB and 32 levels.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub settings: Map<String, Value>,
    /// Data sets that it reads.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub datasets: Vec<Dataset>,
    /// Versions of the frameworks in use, `{"torch": "2.6.0"}`.
    #[serde(default)]
    pub framework_versions: BTreeMap<String, String>,
    /// Labels, at most 100.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// When it started; now if missing.
    #[serde(default)]
    pub start_time_ms: Option<Timestamp>,
    /// Take the run over from a controller that is believed alive.
    #[serde(default)]
    pub takeover: bool,
}

/// Who drives a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerIdentity {
    /// Identity as an actor.
    pub actor_id: ActorId,
    /// How long a contact vouches for it: 5,000 to 3,600,000 ms, default 30,000.
    #[serde(default)]
    #[schema(minimum = 5000, maximum = 3_600_000)]
    pub lease_ttl_ms: Option<u64>,
    /// Its process, if it has one that a head on the same host may watch.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
}

/// A data set that a run reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Its role in the run, `train`.
    #[schema(max_length = 256)]
    pub name: String,
    /// Its own name.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub dataset_name: Option<String>,
    /// Its identity.
    #[schema(max_length = 256)]
    pub dataset_uuid: String,
}

impl RegisterRun {
    /// A registration with nothing but a controller.
    #[must_use]
    pub fn by(actor_id: ActorId) -> Self {
        Self {
            id: None,
            name: None,
            job_id: None,
            experiment: None,
            controller: ControllerIdentity { actor_id, lease_ttl_ms: None, process: None },
            settings: Map::new(),
            datasets: Vec::new(),
            framework_versions: BTreeMap::new(),
            tags: BTreeMap::new(),
            start_time_ms: None,
            takeover: false,
        }
    }

    /// Checks every rule of a registration.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        for (field, name) in
            [("name", &self.name), ("job_id", &self.job_id), ("experiment", &self.experiment)]
        {
            if let Some(name) = name {
                check_name(field, name)?;
            }
        }
        let lease = self.lease_ttl();
        if lease < limits::LEASE_MIN || lease > limits::LEASE_MAX {
            return Err(Invalid::rule(
                "controller.lease_ttl_ms",
                format!(
                    "a lease lasts {} to {} ms",
                    limits::LEASE_MIN.as_millis(),
                    limits::LEASE_MAX.as_millis()
                ),
            ));
        }
        check_document("settings", &self.settings)?;
        check_tags(&self.tags)?;
        if self.datasets.len() > 1000 {
            return Err(Invalid::over("datasets", 1000, "data sets"));
        }
        for dataset in &self.datasets {
            check_name("datasets.name", &dataset.name)?;
        }
        if self.framework_versions.len() > limits::TAGS {
            return Err(Invalid::over("framework_versions", limits::TAGS, "frameworks"));
        }
        if let Some(time) = self.start_time_ms {
            check_time("start_time_ms", time, now)?;
        }
        Ok(())
    }

    /// The lease asked for, or the default.
    #[must_use]
    pub fn lease_ttl(&self) -> Duration {
        self.controller.lease_ttl_ms.map_or(limits::LEASE_DEFAULT, Duration::from_millis)
    }
}

/// The controller's state changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetState {
    /// The new state; a terminal one is said by `end`.
    pub state: ControllerState,
    /// One sentence about it; cut in its middle beyond 16 KiB.
    #[serde(default)]
    pub status_detail: Option<String>,
}

/// A worker group is being placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginAttempt {
    /// Id of the attempt, chosen by the controller: the same id again is the same attempt.
    pub attempt_id: AttemptId,
    /// Size of the group.
    #[schema(minimum = 1, maximum = 10_000)]
    pub num_workers: u32,
    /// One sentence about it.
    #[serde(default)]
    pub status_detail: Option<String>,
}

impl BeginAttempt {
    /// Checks every rule of a new attempt.
    ///
    /// # Errors
    /// When the number of workers is out of its limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.num_workers == 0 {
            return Err(Invalid::rule("num_workers", "a group has at least one worker"));
        }
        if usize::try_from(self.num_workers).unwrap_or(usize::MAX) > limits::WORKERS {
            return Err(Invalid::over("num_workers", limits::WORKERS, "workers"));
        }
        Ok(())
    }
}

/// The workers of an attempt run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptRunning {
    /// All of its workers.
    #[schema(max_items = 10_000)]
    pub workers: Vec<NewWorker>,
}

/// A worker as its controller placed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWorker {
    /// Identity as an actor.
    pub actor_id: ActorId,
    /// Rank in the group, from 0.
    pub world_rank: u32,
    /// Rank on its node, from 0.
    #[serde(default)]
    pub local_rank: u32,
    /// Rank of its node, from 0.
    #[serde(default)]
    pub node_rank: u32,
    /// Identity of its node.
    #[schema(max_length = 256)]
    pub node_id: String,
    /// Address of its node.
    #[schema(max_length = 256)]
    pub node_ip: String,
    /// Process id on its node.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Devices it was given.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub gpu_ids: Vec<String>,
    /// What it asked for.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub resources: Map<String, Value>,
}

impl AttemptRunning {
    /// Checks every rule of a placed group: each rank once, none missing.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.workers.is_empty() {
            return Err(Invalid::rule("workers", "a running attempt has at least one worker"));
        }
        if self.workers.len() > limits::WORKERS {
            return Err(Invalid::over("workers", limits::WORKERS, "workers"));
        }
        let mut seen = vec![false; self.workers.len()];
        for (i, worker) in self.workers.iter().enumerate() {
            let field = |name| format!("workers[{i}].{name}");
            check_name(&field("node_id"), &worker.node_id)?;
            check_name(&field("node_ip"), &worker.node_ip)?;
            if worker.gpu_ids.len() > 64 {
                return Err(Invalid::over(field("gpu_ids"), 64, "devices"));
            }
            for gpu in &worker.gpu_ids {
                check_name(&field("gpu_ids"), gpu)?;
            }
            check_document(&field("resources"), &worker.resources)?;
            match seen.get_mut(usize::try_from(worker.world_rank).unwrap_or(usize::MAX)) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    return Err(Invalid::rule(
                        field("world_rank"),
                        format!(
                            "the {} ranks are 0 to {}, each once",
                            self.workers.len(),
                            self.workers.len() - 1
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Changes of single workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerChanges {
    /// The workers that changed.
    #[schema(max_items = 10_000)]
    pub workers: Vec<WorkerChange>,
}

/// A change of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerChange {
    /// Which rank.
    pub world_rank: u32,
    /// Its status now. DEAD is for ever.
    pub status: WorkerStatus,
    /// How it ended.
    #[serde(default)]
    pub exit: Option<Exit>,
}

/// An attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndAttempt {
    /// FINISHED, ERRORED or ABORTED.
    pub status: AttemptStatus,
    /// Why.
    pub end_reason: EndReason,
    /// One sentence about it.
    #[serde(default)]
    pub status_detail: Option<String>,
}

/// The run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndRun {
    /// FINISHED, ERRORED or ABORTED.
    pub run_status: RunStatus,
    /// Why, in one sentence; cut in its middle beyond 16 KiB.
    #[serde(default)]
    pub status_detail: Option<String>,
    /// When; now if missing. Never before the start and never after the server's own now.
    #[serde(default)]
    pub end_time_ms: Option<Timestamp>,
    /// The first failure, where there was one.
    #[serde(default)]
    pub first_failure: Option<FirstFailure>,
}

impl EndRun {
    /// Checks every rule of an end.
    ///
    /// # Errors
    /// When the status is not terminal, or the time is implausible.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        if self.run_status == RunStatus::Started {
            return Err(Invalid::rule("run_status", "a run ends as FINISHED, ERRORED or ABORTED"));
        }
        if let Some(failure) = &self.first_failure {
            if failure.log_tail.len() > 200 {
                return Err(Invalid::over("first_failure.log_tail", 200, "lines"));
            }
            if failure.consequences.len() > limits::WORKERS {
                return Err(Invalid::over("first_failure.consequences", limits::WORKERS, "entries"));
            }
        }
        self.end_time_ms.map_or(Ok(()), |time| check_time("end_time_ms", time, now))
    }
}

/// What the controller of a run may say about it: one verb a case, and no other way to change a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunVerb {
    /// Its state changed.
    SetState(SetState),
    /// A worker group is being placed.
    BeginAttempt(BeginAttempt),
    /// The workers of an attempt run.
    AttemptRunning(AttemptId, AttemptRunning),
    /// Single workers changed.
    ChangeWorkers(AttemptId, WorkerChanges),
    /// An attempt ended.
    EndAttempt(AttemptId, EndAttempt),
    /// The run ended.
    End(Box<EndRun>),
}

impl RunVerb {
    /// Checks the rules of the body.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        match self {
            Self::BeginAttempt(body) => body.check(),
            Self::AttemptRunning(_, body) => body.check(),
            Self::End(body) => body.check(now),
            Self::ChangeWorkers(_, body) if body.workers.len() > limits::WORKERS => {
                Err(Invalid::over("workers", limits::WORKERS, "workers"))
            }
            Self::SetState(_) | Self::ChangeWorkers(..) | Self::EndAttempt(..) => Ok(()),
        }
    }
}

/// The answer to a registration.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The run.
    pub run_id: RunId,
    /// Its name.
    pub name: String,
    /// The secret that its controller's later writes carry.
    pub token: Secret,
    /// How many controllers the run has had.
    pub epoch: u32,
    /// Whether the run is new, or this was a retry.
    pub created: bool,
}

/// The answer to one run of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// The run.
    pub run_id: RunId,
    /// The epoch in force; missing if the run is unknown.
    pub epoch: Option<u32>,
    /// Whether somebody wants the run to stop.
    pub stop_requested: bool,
    /// Why.
    pub stop_reason: Option<String>,
    /// Grace in place of the run's own.
    pub grace_period_ms: Option<u64>,
    /// Why the heartbeat was refused, as the slug of a problem: `stale-controller`, `run-not-found`, `run-ended`,
    /// `wrong-token`.
    pub problem: Option<String>,
}

/// Somebody wants the run to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRun {
    /// Why, for the record.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub reason: Option<String>,
    /// Time between the stop signal and SIGKILL, in place of the run's own.
    #[serde(default)]
    #[schema(maximum = 86_400_000)]
    pub grace_period_ms: Option<u64>,
}

impl StopRun {
    /// Checks every rule of a stop request.
    ///
    /// # Errors
    /// When the reason or the grace is over its limit.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(reason) = &self.reason {
            check_name("reason", reason)?;
        }
        if self.grace_period_ms.is_some_and(|ms| Duration::from_millis(ms) > limits::GRACE_MAX) {
            let limit = usize::try_from(limits::GRACE_MAX.as_millis()).unwrap_or(usize::MAX);
            return Err(Invalid::over("grace_period_ms", limit, "ms"));
        }
        Ok(())
    }
}

/// A controller says that it lives, for one run or for many.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeats {
    /// The runs it drives.
    #[schema(max_items = 10_000)]
    pub runs: Vec<Heartbeat>,
}

/// One run of a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The run.
    pub run_id: RunId,
    /// Its controller's token.
    #[schema(value_type = String, max_length = 256)]
    pub controller_token: Secret,
    /// The controller's own clock, to tell how far it is off. Decides nothing.
    #[serde(default)]
    pub time_ms: Option<Timestamp>,
    /// How far the run is, for controllers that report no metrics.
    #[serde(default)]
    pub progress: Option<HeartbeatProgress>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatProgress {
    /// The last step.
    #[schema(minimum = 0)]
    pub step: u64,
}

/// Checks a time that a client says.
///
/// # Errors
/// Before 2000 or more than a day ahead is not a time in milliseconds.
pub fn check_time(field: &str, time: Timestamp, now: Timestamp) -> Result<(), Invalid> {
    const YEAR_2000: i64 = 946_684_800_000;
    let day = number::millis(Duration::from_secs(24 * 3600));
    if time.as_ms() < YEAR_2000 || time.as_ms() > now.as_ms().saturating_add(day) {
        return Err(Invalid::malformed(
            field,
            format!(
                "{} is before the year 2000 or more than a day ahead: times are UNIX milliseconds (now is {})",
                time.as_ms(),
                now.as_ms()
            ),
        ));
    }
    Ok(())
}
