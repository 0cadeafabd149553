//! Registering, heartbeats and stop requests: one definition each, for the HTTP routes, for the client of a remote head
//! and for controllers in process. `check` holds the rules that a type alone cannot.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    NumFailures, ProcessIdentity,
    ledger::Demand,
    metrics::check_step,
    names::{check_document, check_name, check_tags},
};
use crate::base::{ActorId, Invalid, RunId, Secret, Timestamp, limits, number};

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
    /// Go on with a run that ended as ERRORED or ABORTED, or whose controller is gone, in its own record: its attempts
    /// and what its failure budgets were charged with stay. Needs the `id`.
    #[serde(default)]
    pub resume: bool,
    /// Deliver metrics to a run that may be another controller's, live or ended: if there is a run with this `id`, nothing
    /// about it changes, and `controller_token` of the answer is one with which only reports are taken. If there is none,
    /// it is registered as usual.
    // Left out where it is false: a head of an earlier version does not know it, and the hash of a body is its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub join: bool,
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
            resume: false,
            join: false,
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
        if self.resume && self.id.is_none() {
            return Err(Invalid::rule("id", "say which run shall be resumed"));
        }
        if self.join {
            if self.id.is_none() {
                return Err(Invalid::rule("id", "say which run shall be joined"));
            }
            for (other, said) in [("takeover", self.takeover), ("resume", self.resume)] {
                if said {
                    let why = format!("who joins a run leaves it to its controller: not with {other}");
                    return Err(Invalid::rule("join", why));
                }
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
    /// How many attempts it has had: the ordinal of the next one.
    pub num_attempts: u32,
    /// What its failure budgets were charged with.
    pub num_failures: NumFailures,
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
    /// Answer to `demand`: how many workers the run can have now, what it has counted in; less than its minimum if it has
    /// to wait.
    pub fits: Option<u32>,
    /// Checkpoints that people want kept, whatever the run's retention says.
    #[serde(default)]
    pub pinned_checkpoints: Vec<u64>,
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
    /// What the run would like to have, if that is not fixed or it waits for it. The answer says how much of it is there.
    #[serde(default)]
    pub demand: Option<Demand>,
}

impl Heartbeat {
    /// Checks every rule of one run's heartbeat; `field` is its place in the request.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        if self.controller_token.expose().chars().count() > limits::TOKEN_CHARS {
            return Err(Invalid::over(
                format!("{field}.controller_token"),
                limits::TOKEN_CHARS,
                "characters",
            ));
        }
        if let Some(HeartbeatProgress { step }) = self.progress {
            check_step(step).map_err(|e| e.within(&format!("{field}.progress")))?;
        }
        self.demand.as_ref().map_or(Ok(()), |demand| demand.check(&format!("{field}.demand")))
    }
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
