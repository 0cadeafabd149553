//! A run with its controller and attempts: the unit that changes together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Attempt, Checkpoint, ControllerState, Phase, Refusal, RunStatus, WorkerStatus,
    attempt::Budget,
    run::{ActorStatus, Controller, Run},
};
use crate::base::{AttemptId, Secret};

/// Everything that one run's transaction changes. Its parts change only through `transitions`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run.
    pub run: Run,
    /// Its controller.
    pub controller: Controller,
    /// Its attempts, oldest first; the place of each is its ordinal.
    pub attempts: Vec<Attempt>,
    /// Its checkpoints by number.
    pub checkpoints: BTreeMap<u64, Checkpoint>,
}

/// How many failures each budget was charged with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NumFailures {
    /// Workers failed or hung.
    pub worker: u32,
    /// Groups could not be started.
    pub controller: u32,
    /// Preemptions.
    pub preemption: u32,
}

/// Numbers of a run that lists are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Attempts that it has had.
    pub attempts: u32,
    /// Failures of workers and of the controller.
    pub failures: u32,
    /// Workers of the newest attempt.
    pub workers: u32,
}

impl RunRecord {
    /// The newest attempt.
    #[must_use]
    pub fn newest_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The ordinal of the attempt whose workers train, if they do.
    #[must_use]
    pub fn training(&self) -> Option<u32> {
        let state = self.run.controller_state;
        let drains = matches!(state, Some(ControllerState::Preempting | ControllerState::ShuttingDown));
        let trains = self.run.phase == Phase::Running && !drains;
        trains.then(|| self.newest_attempt().map_or(0, |a| a.ordinal))
    }

    /// The live attempt; if there is one it is the newest.
    #[must_use]
    pub fn live_attempt(&self) -> Option<&Attempt> {
        self.newest_attempt().filter(|a| !a.status.is_terminal())
    }

    /// The attempt with this id.
    ///
    /// # Errors
    /// [`Refusal::AttemptNotFound`].
    pub fn attempt(&self, id: &AttemptId) -> Result<&Attempt, Refusal> {
        self.attempts
            .iter()
            .find(|a| a.id == *id)
            .ok_or_else(|| Refusal::AttemptNotFound { run: self.run.id.clone(), attempt: id.to_string() })
    }

    /// How often each budget was charged: counted from the attempts, so that no counter can disagree.
    #[must_use]
    pub fn num_failures(&self) -> NumFailures {
        let mut n = NumFailures::default();
        for budget in self.attempts.iter().filter_map(|a| a.end_reason?.budget()) {
            match budget {
                Budget::Worker => n.worker += 1,
                Budget::Controller => n.controller += 1,
                Budget::Preemption => n.preemption += 1,
            }
        }
        n
    }

    /// What lists are ordered by.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let NumFailures { worker, controller, preemption: _ } = self.num_failures();
        Tally {
            attempts: small(self.attempts.len()),
            failures: worker.saturating_add(controller),
            workers: self.newest_attempt().map_or(0, |attempt| small(attempt.workers.len())),
        }
    }

    /// Whether `token` may write this run.
    ///
    /// # Errors
    /// [`Refusal::StaleController`] for the token of an earlier epoch, [`Refusal::WrongToken`] otherwise.
    pub fn authorize(&self, token: &Secret) -> Result<(), Refusal> {
        if self.controller.token.matches(token) {
            return Ok(());
        }
        if self.controller.stale_tokens.iter().any(|old| old.matches(token)) {
            return Err(Refusal::StaleController { epoch: self.controller.epoch });
        }
        Err(Refusal::WrongToken)
    }

    /// The first invariant of 02-states.md that does not hold, for tests and for the store's doctor.
    ///
    /// # Errors
    /// A sentence that names the invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        let run = &self.run;
        let live_workers = self
            .attempts
            .iter()
            .flat_map(|a| a.workers.values())
            .filter(|w| w.status == WorkerStatus::Alive)
            .count();
        if run.phase.is_terminal() {
            let end = run.end_time.ok_or("a terminal run has an end time")?;
            if end < run.start_time {
                return Err("a run ends after its start".into());
            }
            if self.live_attempt().is_some() || live_workers > 0 {
                return Err("a terminal run has no live attempt and no live worker".into());
            }
            if run.ended_by.is_none() || self.controller.status == ActorStatus::Alive {
                return Err("a terminal run was ended by somebody and has no live controller".into());
            }
        } else {
            if run.end_time.is_some() || run.ended_by.is_some() || run.concluded.is_some() {
                return Err("a live run has no end".into());
            }
            if run.trashed_at.is_some() {
                return Err("a live run is not in the trash".into());
            }
            if self.controller.status == ActorStatus::Dead {
                return Err("a live run has a live controller".into());
            }
            if run.phase == Phase::Initializing && self.live_attempt().is_some() {
                return Err("a run with a live attempt is past initializing".into());
            }
        }
        let before_newest = self.attempts.len().saturating_sub(1);
        for (i, attempt) in self.attempts.iter().enumerate() {
            if usize::try_from(attempt.ordinal) != Ok(i) {
                return Err("attempt ordinals count without gaps".into());
            }
            if i < before_newest && !attempt.status.is_terminal() {
                return Err("only the newest attempt is live".into());
            }
            if attempt.status.is_terminal() != attempt.end_time.is_some()
                || attempt.status.is_terminal() != attempt.end_reason.is_some()
            {
                return Err("an attempt has an end time and a reason exactly if it ended".into());
            }
            if attempt.end_time.is_some_and(|end| end < attempt.start_time) {
                return Err("an attempt ends after its start".into());
            }
            let ranks: BTreeMap<_, _> = attempt.workers.values().map(|w| (w.world_rank, ())).collect();
            if ranks.len() != attempt.workers.len() {
                return Err("each rank stands once in an attempt".into());
            }
            for worker in attempt.workers.values() {
                if attempt.status.is_terminal() && worker.status == WorkerStatus::Alive {
                    return Err("an ended attempt has no live worker".into());
                }
                if (worker.status == WorkerStatus::Dead) != worker.exit.is_some() {
                    return Err("a worker has an exit exactly if it is dead".into());
                }
            }
        }
        match run.status() {
            RunStatus::Finished if self.newest_attempt().is_some_and(|a| a.end_reason.is_none()) => {
                Err("a finished run's attempts are closed".into())
            }
            _ => Ok(()),
        }
    }
}
