//! What the controller of a run says about it: the bodies of its verbs, and the rules that a type alone cannot hold.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    AttemptStatus, ControllerState, EndReason, Exit, FirstFailure, RunStatus, StopReport, WorkerStatus,
    checkpoint::RecordCheckpoint,
    commands::check_time,
    demand::{check_node_ids, check_sizes},
    ledger::{Bundle, Demand, NodeOffer, Resources, check_resources},
    names::{check_document, check_name},
};
use crate::base::{ActorId, AttemptId, Invalid, Timestamp, limits};

/// What the controller of a run may say about it: one verb a case, and no other way to change a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", content = "body", rename_all = "snake_case")]
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
    /// A checkpoint was committed, or stands elsewhere now; with its number.
    RecordCheckpoint(u64, Box<RecordCheckpoint>),
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
            Self::RecordCheckpoint(_, body) => body.check(now),
            Self::ChangeWorkers(_, body) if body.workers.len() > limits::WORKERS => {
                Err(Invalid::over("workers", limits::WORKERS, "workers"))
            }
            Self::EndAttempt(_, body) => body.stop_report.as_ref().map_or(Ok(()), |r| r.check("stop_report")),
            Self::SetState(_) | Self::ChangeWorkers(..) => Ok(()),
        }
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// What each worker needs, `{"CPU": 1, "GPU": 1}`: reserved for the attempt until it ends, or refused. Nothing is
    /// reserved if it is missing.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub resources_per_worker: Option<Resources>,
    /// Nodes that the controller can place workers on besides the head's own, with what they have.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    pub nodes: Vec<NodeOffer>,
    /// With fewer workers than `num_workers` the attempt begins too, as long as these many fit; its size is then what
    /// fits. `num_workers` itself if it is missing.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000)]
    pub min_workers: Option<u32>,
    /// The only nodes that workers may be placed on; any if it is empty.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    pub node_ids: Vec<String>,
}

/// What a new attempt got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Begun {
    /// Its size.
    pub num_workers: u32,
    /// What is reserved for each worker; empty if nothing was asked for.
    pub reservation: Vec<Bundle>,
}

impl BeginAttempt {
    /// An attempt for which nothing is reserved.
    #[must_use]
    pub fn unreserved(attempt_id: AttemptId, num_workers: u32, status_detail: Option<String>) -> Self {
        Self {
            attempt_id,
            num_workers,
            status_detail,
            resources_per_worker: None,
            nodes: Vec::new(),
            min_workers: None,
            node_ids: Vec::new(),
        }
    }

    /// What is asked for, if anything is.
    #[must_use]
    pub fn demand(&self) -> Option<Demand> {
        Some(Demand {
            min_workers: self.min_workers.unwrap_or(self.num_workers),
            max_workers: self.num_workers,
            resources_per_worker: self.resources_per_worker.clone()?,
            node_ids: self.node_ids.clone(),
        })
    }

    /// Checks every rule of a new attempt.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.num_workers == 0 {
            return Err(Invalid::rule("num_workers", "a group has at least one worker"));
        }
        if usize::try_from(self.num_workers).unwrap_or(usize::MAX) > limits::WORKERS {
            return Err(Invalid::over("num_workers", limits::WORKERS, "workers"));
        }
        if let Some(min) = self.min_workers {
            check_sizes("min_workers", min, self.num_workers)?;
        }
        check_node_ids("node_ids", &self.node_ids)?;
        if let Some(each) = &self.resources_per_worker {
            check_resources("resources_per_worker", each)?;
        }
        if self.nodes.len() > limits::NODES {
            return Err(Invalid::over("nodes", limits::NODES, "nodes"));
        }
        self.nodes.iter().enumerate().try_for_each(|(i, node)| node.check(&format!("nodes[{i}]")))
    }
}

/// The workers of an attempt run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptRunning {
    /// All of its workers.
    #[schema(max_items = 10_000)]
    pub workers: Vec<NewWorker>,
    /// Where rank 0 listens for the others, `127.0.0.1:43017`.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub master_address: Option<String>,
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
        if let Some(address) = &self.master_address {
            check_name("master_address", address)?;
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
    /// What became of its processes, if its controller owned them.
    #[serde(default)]
    pub stop_report: Option<StopReport>,
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
