//! What is kept of a run itself, and of the actor that drives it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Actor, AttemptStatus, ControllerState, FirstFailure, Phase, ProcessIdentity, RunStatus,
    closed_enum::closed_enum, commands::Dataset, settings::Settings,
};
use crate::base::{ActorId, RunId, Timestamp, TokenHash};

closed_enum! {
    /// Whether an actor lives, as far as is known.
    ActorStatus {
        /// Something vouches for it.
        Alive = "ALIVE",
        /// It ended or is gone.
        Dead = "DEAD",
    }
}

/// One training job.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Identity.
    pub id: RunId,
    /// Label for people.
    pub name: String,
    /// Job it belongs to.
    pub job_id: Option<String>,
    /// Experiment it belongs to.
    pub experiment: Option<String>,
    /// Where it is; every status is derived from it.
    pub phase: Phase,
    /// The controller's finer state, where it reports it.
    pub controller_state: Option<ControllerState>,
    /// Why, in one sentence.
    pub status_detail: Option<String>,
    /// Who ended it.
    pub ended_by: Option<Actor>,
    /// When it started.
    pub start_time: Timestamp,
    /// When it ended: for a concluded run the controller's death or last contact.
    pub end_time: Option<Timestamp>,
    /// When TrainHead noticed the end of a run that it concluded.
    pub noticed_at: Option<Timestamp>,
    /// A stop that was asked for.
    pub stop: Option<Stop>,
    /// What a concluded run was before, in case it comes back.
    pub concluded: Option<Concluded>,
    /// The first failure.
    pub first_failure: Option<FirstFailure>,
    /// What it was started with.
    pub settings: Settings,
    /// Data sets that it reads.
    pub datasets: Vec<Dataset>,
    /// Versions of frameworks.
    pub framework_versions: BTreeMap<String, String>,
    /// Labels.
    pub tags: BTreeMap<String, String>,
    /// Notes of people, Markdown.
    pub notes: Option<String>,
    /// When it was put into the trash.
    pub trashed_at: Option<Timestamp>,
    /// Hash of the registration's body, to tell a retry from another registration.
    pub body_hash: String,
}

impl Run {
    /// The status that it shows.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        self.phase.run_status()
    }

    /// How long it took; none while it lives.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.end_time.map(|end| end.since(self.start_time))
    }
}

/// A stop that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// When.
    pub requested_at: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// Grace in place of the run's own.
    pub grace_period_ms: Option<u64>,
}

/// What a run was when TrainHead concluded that its controller is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concluded {
    /// Its phase.
    pub phase: Phase,
    /// Its controller's state.
    pub controller_state: Option<ControllerState>,
    /// The status of its live attempt.
    pub attempt: Option<AttemptStatus>,
}

/// The actor that drives a run, in its newest epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Identity.
    pub actor_id: ActorId,
    /// 1, 2 …: how many controllers the run has had.
    pub epoch: u32,
    /// Hash of its token.
    pub token: TokenHash,
    /// Hashes of the tokens of earlier epochs, to tell a stale controller from a stranger.
    pub stale_tokens: Vec<TokenHash>,
    /// Whether it lives.
    pub status: ActorStatus,
    /// How long a contact vouches for it.
    pub lease_ttl: Duration,
    /// Its last contact, by the server's clock.
    pub last_contact: Timestamp,
    /// Its process, if it has one that may be watched.
    pub process: Option<ProcessIdentity>,
    /// When its process was seen to have ended.
    pub process_ended: Option<Timestamp>,
    /// How far its clock is ahead of ours, ms, if that was found to be more than 5 s.
    pub clock_skew_ms: Option<i64>,
}
