//! The shapes that the API answers with.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Actor, Attempt, AttemptStatus, ControllerState, EndReason, Exit, FirstFailure, Phase, RunRecord,
    RunStatus, StopReport, Worker, WorkerStatus,
    closed_enum::closed_enum,
    commands::Dataset,
    ledger::Bundle,
    metrics::MetricValue,
    progress::ProgressView,
    record::NumFailures,
    run::{ActorStatus, Stop},
    settings::Settings,
};
use crate::base::{
    Timestamp,
    host::{GpuStats, ProcessStats, WorkerStats},
    limits, number,
};

closed_enum! {
    /// What the runs of a list carry besides what they are.
    Member {
        /// Workers of the newest attempt.
        Workers = "workers",
        /// All attempts with their workers.
        Attempts = "attempts",
        /// What is known of the controller and the progress, and the last values of all metrics at hand.
        Evidence = "evidence",
        /// What the workers on the head's host use right now.
        Stats = "stats",
    }
}

/// A run as it stands in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrainRun<'a> {
    /// Identity.
    pub id: &'a str,
    /// Label for people.
    pub name: &'a str,
    /// Job it belongs to.
    pub job_id: Option<&'a str>,
    /// Experiment it belongs to.
    pub experiment: Option<&'a str>,
    /// The actor that drives it.
    pub controller_actor_id: &'a str,
    /// Whether that actor lives.
    pub controller_actor_status: ActorStatus,
    /// The controller's finer state, where it reports it.
    pub controller_state: Option<ControllerState>,
    /// STARTED, FINISHED, ERRORED or ABORTED.
    pub run_status: RunStatus,
    /// The phase that the status is derived from.
    pub phase: Phase,
    /// Why, in one sentence.
    pub status_detail: Option<&'a str>,
    /// Who ended it.
    pub ended_by: Option<Actor>,
    /// When it started.
    pub start_time_ms: Timestamp,
    /// When it ended; for a concluded run the controller's death or last contact.
    pub end_time_ms: Option<Timestamp>,
    /// How long it took; null while it lives.
    pub duration_ms: Option<i64>,
    /// When TrainHead noticed an end that it concluded.
    pub noticed_at_ms: Option<Timestamp>,
    /// When a stop was asked for.
    pub stop_requested_at_ms: Option<Timestamp>,
    /// How many attempts it has had.
    pub num_attempts: usize,
    /// Failures by budget.
    pub num_failures: NumFailures,
    /// Labels.
    pub tags: &'a BTreeMap<String, String>,
    /// Data sets that it reads.
    pub datasets: &'a [Dataset],
    /// Versions of frameworks.
    pub framework_versions: &'a BTreeMap<String, String>,
    /// What it was started with.
    #[schema(value_type = Option<Object>)]
    pub settings: Option<&'a Settings>,
    /// Notes of people, Markdown.
    pub notes: Option<&'a str>,
    /// The first failure.
    pub first_failure: Option<&'a FirstFailure>,
    /// Members that are null in a list because they are long; the run itself has them.
    pub omitted: Vec<&'static str>,
    /// When it was put into the trash.
    pub trashed_at_ms: Option<Timestamp>,
    /// Workers of the newest attempt, by world rank. In a list only if `include` has `workers`, which it has if it is
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<WorkerView<'a>>, required = false)]
    pub workers: Option<Vec<WorkerView<'a>>>,
}

/// A worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerView<'a> {
    /// Identity as an actor.
    pub actor_id: &'a str,
    /// Rank in the group.
    pub world_rank: u32,
    /// Rank on its node.
    pub local_rank: u32,
    /// Rank of its node.
    pub node_rank: u32,
    /// Identity of its node.
    pub node_id: &'a str,
    /// Address of its node.
    pub node_ip: &'a str,
    /// Process id on its node.
    pub pid: Option<u32>,
    /// Devices it was given.
    pub gpu_ids: &'a [String],
    /// ALIVE or DEAD.
    pub status: WorkerStatus,
    /// How it ended.
    pub exit: Option<&'a Exit>,
    /// What it asked for.
    #[schema(value_type = Object)]
    pub resources: &'a Map<String, Value>,
    /// Where its log is, relative to the head's address.
    pub log_url: String,
    /// What its process uses right now, null if it is not on the head's host; only if `include` has `stats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProcessStats>, required = false)]
    pub process_stats: Option<Option<ProcessStats>>,
    /// The GPUs that its process uses; only if `include` has `stats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<GpuStats>, required = false)]
    pub gpus: Option<Vec<GpuStats>>,
}

/// A run in full.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrainRunDetail<'a> {
    /// What changes by a commit only.
    #[serde(flatten)]
    pub standing: Standing<'a>,
    /// What changes by itself.
    #[serde(flatten)]
    pub moving: Moving<'a>,
}

/// Of a run in full what changes by a commit only.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Standing<'a> {
    /// What stands in the list, with all that lists may leave out.
    #[serde(flatten)]
    pub run: TrainRun<'a>,
    /// How many controllers it has had.
    pub epoch: u32,
    /// The stop that was asked for.
    #[schema(value_type = Option<Object>)]
    pub stop: Option<&'a Stop>,
    /// All attempts, oldest first.
    pub attempts: Vec<AttemptView<'a>>,
}

/// Of a run in full what changes by itself.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Moving<'a> {
    /// What is known of its controller and its progress, and how.
    pub evidence: Evidence,
    /// Last values of its metrics.
    #[schema(value_type = Object)]
    pub last_metrics: BTreeMap<&'a str, MetricValue>,
    /// The server's time of this answer.
    pub server_time_ms: Timestamp,
}

/// An attempt with its workers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AttemptView<'a> {
    /// Identity.
    pub attempt_id: &'a str,
    /// 0, 1, 2 …
    pub ordinal: u32,
    /// Where it is.
    pub status: AttemptStatus,
    /// Why it ended.
    pub end_reason: Option<EndReason>,
    /// One sentence about it.
    pub status_detail: Option<&'a str>,
    /// When its placing began.
    pub start_time_ms: Timestamp,
    /// When it ended.
    pub end_time_ms: Option<Timestamp>,
    /// How many workers it has, or would have had.
    pub num_workers: u32,
    /// What is reserved for each worker for as long as the attempt lives; empty if nothing was asked for.
    pub reservation: &'a [Bundle],
    /// Where rank 0 listens for the others; null if nobody said.
    pub master_address: Option<&'a str>,
    /// What became of its processes; null if nobody said.
    pub stop_report: Option<&'a StopReport>,
    /// Its workers by world rank.
    pub workers: Vec<WorkerView<'a>>,
}

/// Three separate facts: process, contact, progress.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Evidence {
    /// The controller's process.
    pub process: ProcessEvidence,
    /// Its contact.
    pub contact: ContactEvidence,
    /// The run's progress.
    pub progress: ProgressView,
}

/// What is known of the controller's process.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProcessEvidence {
    /// `running` or `exited` if it is watched or was seen to end, else `unknown`.
    pub state: &'static str,
    /// Its pid.
    pub pid: Option<u32>,
    /// Its host.
    pub host: Option<String>,
    /// Who watches it.
    pub observed_by: Option<&'static str>,
    /// When it was last seen so.
    pub observed_at_ms: Option<Timestamp>,
}

/// What is known of the controller's contact.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ContactEvidence {
    /// Last contact, by the server's clock.
    pub last_contact_ms: Timestamp,
    /// How long a contact vouches for it.
    pub lease_ttl_ms: i64,
    /// When the lease ends; null for an ended run.
    pub lease_expires_ms: Option<Timestamp>,
    /// How far its clock is ahead of ours, if more than 5 s.
    pub clock_skew_ms: Option<i64>,
}

/// A run as lists show it, JSON, whose last member are its workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The JSON.
    pub json: String,
    /// Where in it the comma before `"workers"` stands.
    pub workers_at: usize,
}

/// What single workers use right now, by attempt ordinal and world rank.
pub type StatsOf = BTreeMap<(u32, u32), WorkerStats>;

impl RunRecord {
    /// The run as it stands in a list: what is long is left out. Nothing in it changes by the clock alone.
    #[must_use]
    pub fn listed(&self) -> TrainRun<'_> {
        let mut view = self.view(&StatsOf::new());
        let mut omit = |name, long: bool| {
            if long {
                view.omitted.push(name);
            }
            long
        };
        if omit("settings", self.run.settings.as_json().len() > limits::LISTED_BYTES) {
            view.settings = None;
        }
        if omit("notes", is_long(&self.run.notes)) {
            view.notes = None;
        }
        if omit("first_failure", is_long(&self.run.first_failure)) {
            view.first_failure = None;
        }
        view
    }

    /// The run as it stands in a list, ready-made.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut view = self.listed();
        let workers = view.workers.take();
        // A view holds nothing that JSON cannot.
        let mut json = serde_json::to_string(&view).unwrap_or_default();
        json.pop();
        let workers_at = json.len();
        json.push_str(",\"workers\":");
        json.push_str(&serde_json::to_string(&workers).unwrap_or_default());
        json.push('}');
        Document { json, workers_at }
    }

    /// The run with all that lists may leave out.
    #[must_use]
    pub fn view<'a>(&'a self, stats: &StatsOf) -> TrainRun<'a> {
        let run = &self.run;
        TrainRun {
            id: run.id.as_str(),
            name: &run.name,
            job_id: run.job_id.as_deref(),
            experiment: run.experiment.as_deref(),
            controller_actor_id: self.controller.actor_id.as_str(),
            controller_actor_status: self.controller.status,
            controller_state: run.controller_state,
            run_status: run.status(),
            phase: run.phase,
            status_detail: run.status_detail.as_deref(),
            ended_by: run.ended_by,
            start_time_ms: run.start_time,
            end_time_ms: run.end_time,
            duration_ms: run.duration().map(number::millis),
            noticed_at_ms: run.noticed_at,
            stop_requested_at_ms: run.stop.as_ref().map(|s| s.requested_at),
            num_attempts: self.attempts.len(),
            num_failures: self.num_failures(),
            tags: &run.tags,
            datasets: &run.datasets,
            framework_versions: &run.framework_versions,
            settings: Some(&run.settings),
            notes: run.notes.as_deref(),
            first_failure: run.first_failure.as_ref(),
            omitted: Vec::new(),
            trashed_at_ms: run.trashed_at,
            workers: Some(self.newest_attempt().map(|a| self.worker_views(a, stats)).unwrap_or_default()),
        }
    }

    /// All attempts as they are shown.
    #[must_use]
    pub fn attempt_views<'a>(&'a self, stats: &StatsOf) -> Vec<AttemptView<'a>> {
        let view = |a: &'a Attempt| AttemptView {
            attempt_id: a.id.as_str(),
            ordinal: a.ordinal,
            status: a.status,
            end_reason: a.end_reason,
            status_detail: a.status_detail.as_deref(),
            start_time_ms: a.start_time,
            end_time_ms: a.end_time,
            num_workers: a.num_workers,
            reservation: &a.reservation,
            master_address: a.master_address.as_deref(),
            stop_report: a.stop_report.as_ref(),
            workers: self.worker_views(a, stats),
        };
        self.attempts.iter().map(view).collect()
    }

    /// The workers of an attempt as they are shown.
    #[must_use]
    pub fn worker_views<'a>(&'a self, attempt: &'a Attempt, stats: &StatsOf) -> Vec<WorkerView<'a>> {
        let stats = |w: &Worker| stats.get(&(attempt.ordinal, w.world_rank)).cloned();
        let view = |w: &'a Worker| WorkerView {
            actor_id: w.actor_id.as_str(),
            world_rank: w.world_rank,
            local_rank: w.local_rank,
            node_rank: w.node_rank,
            node_id: &w.node_id,
            node_ip: &w.node_ip,
            pid: w.pid,
            gpu_ids: &w.gpu_ids,
            status: w.status,
            exit: w.exit.as_ref(),
            resources: &w.resources,
            log_url: format!("api/train/runs/{}/logs/{}/{}", self.run.id, attempt.ordinal, w.world_rank),
            process_stats: stats(w).map(|s| s.process_stats),
            gpus: stats(w).map(|s| s.gpus),
        };
        attempt.workers.values().map(view).collect()
    }
}

fn is_long(member: &impl Serialize) -> bool {
    serde_json::to_vec(member).is_ok_and(|json| json.len() > limits::LISTED_BYTES)
}
