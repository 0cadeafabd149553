//! The verbs: every way in which a run's record may change. Each checks the whole change before it makes any of it,
//! so a refused verb leaves the record untouched.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Actor, Attempt, AttemptStatus, ControllerState, EndReason, Event, EventKind, Exit, Phase, Refusal,
    RunRecord, RunStatus, Trail, Worker, WorkerStatus,
    commands::{
        AttemptRunning, BeginAttempt, EndAttempt, EndRun, RegisterRun, SetState, StopRun, WorkerChanges,
    },
    names::{cut_detail, made_up_name},
    run::{ActorStatus, Concluded, Controller, Run, Stop},
    worker::CONTROLLER_LOST,
};
use crate::base::{AttemptId, Invalid, RunId, Timestamp, TokenHash, limits, number};

/// Why TrainHead concludes that a controller is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// One sentence for people.
    pub detail: String,
    /// When the controller died, or was last heard of.
    pub end_time: Timestamp,
    /// Who is said to have ended the run: the reconciler, or the user whose stop was never confirmed.
    pub by: Actor,
    /// What was known.
    pub evidence: serde_json::Value,
}

impl RunRecord {
    /// A new run. The body must have passed `check`.
    #[must_use]
    pub fn register(
        id: RunId,
        body: RegisterRun,
        body_hash: String,
        token: TokenHash,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Self {
        let lease_ttl = body.lease_ttl();
        let record = Self {
            run: Run {
                name: body.name.unwrap_or_else(|| made_up_name(&id)),
                id,
                job_id: body.job_id,
                experiment: body.experiment,
                phase: Phase::Initializing,
                controller_state: None,
                status_detail: None,
                ended_by: None,
                start_time: body.start_time_ms.unwrap_or(now),
                end_time: None,
                noticed_at: None,
                stop: None,
                concluded: None,
                first_failure: None,
                settings: body.settings,
                datasets: body.datasets,
                framework_versions: body.framework_versions,
                tags: body.tags,
                notes: None,
                body_hash,
            },
            controller: Controller {
                actor_id: body.controller.actor_id,
                epoch: 1,
                token,
                stale_tokens: Vec::new(),
                status: ActorStatus::Alive,
                lease_ttl,
                last_contact: now,
                process: body.controller.process,
                clock_skew_ms: None,
            },
            attempts: Vec::new(),
        };
        let registered = record.event(now, EventKind::Run, Actor::Controller);
        trail.events.push(Event { to: Some(Phase::Initializing.to_string()), ..registered });
        record
    }

    /// Another controller drives the run from now on. The old one's live attempt is closed: its workers are not ours.
    ///
    /// # Errors
    /// When the run has ended by somebody's word.
    pub fn take_over(
        &mut self,
        body: RegisterRun,
        token: TokenHash,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        if self.run.phase.is_terminal() && self.run.concluded.is_none() {
            return Err(Refusal::RunEnded(self.run.status()));
        }
        self.come_back(now, "another controller took the run over", trail);
        let lost = format!("controller {} was replaced", self.controller.actor_id);
        self.close_live_attempt(
            AttemptStatus::Aborted,
            EndReason::ControllerLost,
            Some(lost),
            now,
            now,
            trail,
        );
        let lease_ttl = body.lease_ttl();
        let old = self.controller.clone();
        self.controller = Controller {
            actor_id: body.controller.actor_id,
            epoch: old.epoch + 1,
            token,
            stale_tokens: [old.stale_tokens, vec![old.token]].concat(),
            status: ActorStatus::Alive,
            lease_ttl,
            last_contact: now,
            process: body.controller.process,
            clock_skew_ms: None,
        };
        self.run.controller_state = None;
        let event = self.event(now, EventKind::Controller, Actor::Controller);
        trail.events.push(Event {
            from: Some(old.actor_id.to_string()),
            to: Some(self.controller.actor_id.to_string()),
            reason: Some(format!("taken over, epoch {}", self.controller.epoch)),
            ..event
        });
        Ok(())
    }

    /// The controller's state changed.
    ///
    /// # Errors
    /// When the run has ended, the state is terminal (that is `end`'s word) or the table has no such transition.
    pub fn set_state(&mut self, body: SetState, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        let next = body.state;
        if next.phase().is_terminal() {
            return Err(
                Invalid::rule("state", "a terminal state is reported by ending the run (…/end)").into()
            );
        }
        let phase = self.run.phase.to(next.phase())?;
        match self.run.controller_state {
            Some(state) if state == next || state.may_go_to(next) => {}
            // The first word of a controller, which may have taken over in the middle.
            None => {}
            Some(state) => {
                return Err(Refusal::IllegalTransition { from: state.as_str(), to: next.as_str() });
            }
        }
        let detail = body.status_detail.map(cut_detail);
        self.run.controller_state = Some(next);
        self.run.status_detail.clone_from(&detail);
        self.enter(phase, Actor::Controller, detail, now, trail);
        Ok(())
    }

    /// A worker group is being placed.
    ///
    /// # Errors
    /// When the run has ended or another attempt is live. The same attempt again is not an error.
    pub fn begin_attempt(
        &mut self,
        body: BeginAttempt,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        if self.attempt(&body.attempt_id).is_ok() {
            return Ok(());
        }
        let phase = self.run.phase.to(Phase::Scheduling)?;
        if let Some(live) = self.live_attempt() {
            return Err(Refusal::AttemptLive(live.id.clone()));
        }
        let ordinal = u32::try_from(self.attempts.len())
            .map_err(|_| Invalid::rule("attempt_id", "a run cannot have more attempts"))?;
        let detail = body.status_detail.map(cut_detail);
        self.attempts.push(Attempt {
            id: body.attempt_id,
            ordinal,
            status: AttemptStatus::Pending,
            end_reason: None,
            status_detail: detail.clone(),
            start_time: now,
            end_time: None,
            num_workers: body.num_workers,
            workers: BTreeMap::new(),
        });
        self.enter(phase, Actor::Controller, None, now, trail);
        trail.attempts.insert(ordinal);
        let event = self.event(now, EventKind::Attempt, Actor::Controller);
        trail.events.push(Event {
            to: Some(AttemptStatus::Pending.to_string()),
            reason: detail,
            attempt: Some(ordinal),
            ..event
        });
        Ok(())
    }

    /// The workers of an attempt run.
    ///
    /// # Errors
    /// When the attempt is unknown or not pending, or the number of workers is another one than was asked for.
    pub fn attempt_running(
        &mut self,
        id: &AttemptId,
        body: AttemptRunning,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        let attempt = self.attempt(id)?;
        let (ordinal, before) = (attempt.ordinal, attempt.status);
        let status = before.to(AttemptStatus::Running)?;
        if before == status {
            return Ok(());
        }
        if u32::try_from(body.workers.len()) != Ok(attempt.num_workers) {
            return Err(Invalid::rule(
                "workers",
                format!("the attempt asked for {} workers, not {}", attempt.num_workers, body.workers.len()),
            )
            .into());
        }
        let phase = self.run.phase.to(Phase::Running)?;
        let attempt = self.attempt_mut(ordinal);
        attempt.status = status;
        attempt.status_detail = None;
        for w in body.workers {
            trail.workers.insert((ordinal, w.world_rank));
            attempt.workers.insert(
                w.world_rank,
                Worker {
                    actor_id: w.actor_id,
                    world_rank: w.world_rank,
                    local_rank: w.local_rank,
                    node_rank: w.node_rank,
                    node_id: w.node_id,
                    node_ip: w.node_ip,
                    pid: w.pid,
                    gpu_ids: w.gpu_ids,
                    status: WorkerStatus::Alive,
                    exit: None,
                    resources: w.resources,
                },
            );
        }
        self.enter(phase, Actor::Controller, None, now, trail);
        self.attempt_changed(ordinal, before, Actor::Controller, None, now, trail);
        Ok(())
    }

    /// Single workers changed.
    ///
    /// # Errors
    /// When the attempt or a rank is unknown, or a dead worker is said to live.
    pub fn change_workers(
        &mut self,
        id: &AttemptId,
        body: WorkerChanges,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        let attempt = self.attempt(id)?;
        let ordinal = attempt.ordinal;
        for (i, change) in body.workers.iter().enumerate() {
            let Some(worker) = attempt.workers.get(&change.world_rank) else {
                let message = format!("attempt {ordinal} has no rank {}", change.world_rank);
                return Err(Invalid::rule(format!("workers[{i}].world_rank"), message).into());
            };
            if worker.status == WorkerStatus::Dead && change.status == WorkerStatus::Alive {
                return Err(Refusal::IllegalTransition { from: "DEAD", to: "ALIVE" });
            }
        }
        for change in body.workers {
            if change.status == WorkerStatus::Dead {
                let exit =
                    change.exit.unwrap_or(Exit { code: None, signal: None, time_ms: now, cause: None });
                self.bury(ordinal, change.world_rank, exit, Actor::Controller, now, trail);
            }
        }
        Ok(())
    }

    /// An attempt ended.
    ///
    /// # Errors
    /// When the attempt is unknown, or ended otherwise before. The same end again is not an error.
    pub fn end_attempt(
        &mut self,
        id: &AttemptId,
        body: EndAttempt,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        if !body.status.is_terminal() {
            return Err(Invalid::rule("status", "an attempt ends as FINISHED, ERRORED or ABORTED").into());
        }
        let attempt = self.attempt(id)?;
        if attempt.status.is_terminal() {
            let same = attempt.status == body.status && attempt.end_reason == Some(body.end_reason);
            return if same {
                Ok(())
            } else {
                Err(Refusal::IllegalTransition { from: attempt.status.as_str(), to: body.status.as_str() })
            };
        }
        attempt.status.to(body.status)?;
        self.close_live_attempt(
            body.status,
            body.end_reason,
            body.status_detail.map(cut_detail),
            now,
            now,
            trail,
        );
        Ok(())
    }

    /// Somebody wants the run to stop. A second request may shorten the grace, nothing else.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn request_stop(&mut self, body: StopRun, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        if self.run.phase.is_terminal() {
            return Err(Refusal::RunEnded(self.run.status()));
        }
        let (requested_at, reason) = match self.run.stop.take() {
            Some(stop) => (stop.requested_at, stop.reason),
            None => (now, body.reason.clone()),
        };
        self.run.stop = Some(Stop { requested_at, reason, grace_period_ms: body.grace_period_ms });
        let event = self.event(now, EventKind::Stop, Actor::User);
        trail.events.push(Event { reason: body.reason, ..event });
        Ok(())
    }

    /// The controller says how the run ended. The body must have passed `check`.
    ///
    /// # Errors
    /// [`Refusal::RunEnded`] when it ended otherwise before. The same status again changes nothing.
    pub fn end(&mut self, body: EndRun, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        let Some(next) = body.run_status.terminal_phase() else {
            return Err(Invalid::rule("run_status", "a run ends as FINISHED, ERRORED or ABORTED").into());
        };
        if self.run.concluded.is_some() {
            // It was not dead after all, and its own word stands.
            self.come_back(now, "the controller reported the run's end", trail);
        }
        let phase = self.run.phase.to(next)?;
        if self.run.phase == phase {
            return Ok(());
        }
        // ERRORED is an error that the controller detected; it aborts only because somebody asked it to.
        let by = if body.run_status == RunStatus::Aborted { Actor::User } else { Actor::Controller };
        let end_time = body.end_time_ms.unwrap_or(now).min(now);
        let (status, reason) = match body.run_status {
            RunStatus::Finished => (AttemptStatus::Finished, EndReason::Completed),
            RunStatus::Errored => (AttemptStatus::Errored, EndReason::WorkerFailed),
            RunStatus::Aborted | RunStatus::Started => (AttemptStatus::Aborted, EndReason::Stopped),
        };
        let detail = body.status_detail.map(cut_detail);
        let pending = self.live_attempt().is_some_and(|a| a.status == AttemptStatus::Pending);
        let status =
            if pending && status == AttemptStatus::Finished { AttemptStatus::Aborted } else { status };
        self.close_live_attempt(status, reason, detail.clone(), end_time, now, trail);
        self.run.first_failure = body.first_failure;
        self.finish(phase, by, detail, end_time, None, now, trail);
        Ok(())
    }

    /// TrainHead concludes that the controller is gone: run, attempt and workers end together.
    pub fn conclude(&mut self, conclusion: Conclusion, now: Timestamp, trail: &mut Trail) {
        if self.run.phase.is_terminal() {
            return;
        }
        let Conclusion { detail, end_time, by, evidence } = conclusion;
        let concluded = Concluded {
            phase: self.run.phase,
            controller_state: self.run.controller_state,
            attempt: self.live_attempt().map(|a| a.status),
        };
        let detail = Some(cut_detail(detail));
        let reason = if by == Actor::User { EndReason::Stopped } else { EndReason::ControllerLost };
        self.close_live_attempt(AttemptStatus::Aborted, reason, detail.clone(), end_time, now, trail);
        self.run.noticed_at = Some(now);
        // What a user stopped never comes back.
        self.run.concluded = (by == Actor::Reconciler).then_some(concluded);
        self.finish(Phase::Aborted, by, detail, end_time, Some(evidence), now, trail);
    }

    /// The controller of a concluded run was heard of again: it was not dead, so everything is as it was.
    /// Returns whether there was anything to bring back.
    pub fn come_back(&mut self, now: Timestamp, reason: &str, trail: &mut Trail) -> bool {
        let Some(concluded) = self.run.concluded.take() else { return false };
        let from = self.run.phase;
        self.run.phase = concluded.phase;
        self.run.controller_state = concluded.controller_state;
        self.run.status_detail = None;
        self.run.ended_by = None;
        self.run.end_time = None;
        self.run.noticed_at = None;
        self.controller.status = ActorStatus::Alive;
        if let (Some(status), Some(attempt)) = (concluded.attempt, self.attempts.last_mut()) {
            attempt.status = status;
            attempt.end_reason = None;
            attempt.end_time = None;
            attempt.status_detail = None;
            trail.attempts.insert(attempt.ordinal);
            for worker in attempt.workers.values_mut() {
                if worker.exit.as_ref().is_some_and(|e| e.cause.as_deref() == Some(CONTROLLER_LOST)) {
                    worker.status = WorkerStatus::Alive;
                    worker.exit = None;
                    trail.workers.insert((attempt.ordinal, worker.world_rank));
                }
            }
        }
        let event = self.event(now, EventKind::Run, Actor::Reconciler);
        trail.events.push(Event {
            from: Some(from.to_string()),
            to: Some(self.run.phase.to_string()),
            reason: Some(reason.to_owned()),
            ..event
        });
        true
    }

    /// The controller was heard of. `client_time` is its own clock's word; it decides nothing.
    pub fn contact(&mut self, client_time: Option<Timestamp>, now: Timestamp) {
        self.controller.last_contact = now;
        if let Some(time) = client_time {
            let skew = time.as_ms().saturating_sub(now.as_ms());
            let notable = skew.unsigned_abs() > number::millis(limits::CLOCK_SKEW).unsigned_abs();
            self.controller.clock_skew_ms = notable.then_some(skew);
        }
    }

    fn enter(&mut self, phase: Phase, by: Actor, reason: Option<String>, now: Timestamp, trail: &mut Trail) {
        if phase == self.run.phase {
            return;
        }
        let event = self.event(now, EventKind::Run, by);
        trail.events.push(Event {
            from: Some(self.run.phase.to_string()),
            to: Some(phase.to_string()),
            reason,
            ..event
        });
        self.run.phase = phase;
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one end, used twice")]
    fn finish(
        &mut self,
        phase: Phase,
        by: Actor,
        detail: Option<String>,
        end_time: Timestamp,
        evidence: Option<serde_json::Value>,
        now: Timestamp,
        trail: &mut Trail,
    ) {
        let event = self.event(now, EventKind::Run, by);
        trail.events.push(Event {
            from: Some(self.run.phase.to_string()),
            to: Some(phase.to_string()),
            reason: detail.clone(),
            evidence,
            ..event
        });
        self.run.phase = phase;
        self.run.controller_state = match phase {
            Phase::Finished => Some(ControllerState::Finished),
            Phase::Errored => Some(ControllerState::Errored),
            _ => Some(ControllerState::Aborted),
        };
        self.run.status_detail = detail;
        self.run.ended_by = Some(by);
        self.run.end_time = Some(end_time.max(self.run.start_time));
        self.controller.status = ActorStatus::Dead;
    }

    fn close_live_attempt(
        &mut self,
        status: AttemptStatus,
        reason: EndReason,
        detail: Option<String>,
        end_time: Timestamp,
        now: Timestamp,
        trail: &mut Trail,
    ) {
        let Some(attempt) = self.live_attempt() else { return };
        let (ordinal, before) = (attempt.ordinal, attempt.status);
        let by = if reason == EndReason::ControllerLost { Actor::Reconciler } else { Actor::Controller };
        let cause = match reason {
            EndReason::ControllerLost => CONTROLLER_LOST,
            _ => reason.as_str(),
        };
        let alive: Vec<u32> = attempt
            .workers
            .values()
            .filter(|w| w.status == WorkerStatus::Alive)
            .map(|w| w.world_rank)
            .collect();
        for rank in alive {
            let exit = Exit { code: None, signal: None, time_ms: end_time, cause: Some(cause.to_owned()) };
            self.bury(ordinal, rank, exit, by, now, trail);
        }
        let attempt = self.attempt_mut(ordinal);
        attempt.status = status;
        attempt.end_reason = Some(reason);
        attempt.status_detail.clone_from(&detail);
        attempt.end_time = Some(end_time.max(attempt.start_time));
        self.attempt_changed(
            ordinal,
            before,
            by,
            Some(detail.unwrap_or_else(|| reason.to_string())),
            now,
            trail,
        );
    }

    fn bury(&mut self, ordinal: u32, rank: u32, exit: Exit, by: Actor, now: Timestamp, trail: &mut Trail) {
        let event = self.event(now, EventKind::Worker, by);
        let Some(worker) = self.attempt_mut(ordinal).workers.get_mut(&rank) else { return };
        if worker.status == WorkerStatus::Dead {
            return;
        }
        let reason = match (&exit.signal, exit.code, &exit.cause) {
            (Some(signal), _, _) => Some(format!("killed by {signal}")),
            (None, Some(code), _) => Some(format!("exited with code {code}")),
            (None, None, cause) => cause.clone(),
        };
        worker.status = WorkerStatus::Dead;
        worker.exit = Some(exit);
        trail.workers.insert((ordinal, rank));
        trail.events.push(Event {
            from: Some(WorkerStatus::Alive.to_string()),
            to: Some(WorkerStatus::Dead.to_string()),
            reason,
            attempt: Some(ordinal),
            rank: Some(rank),
            ..event
        });
    }

    fn attempt_changed(
        &self,
        ordinal: u32,
        before: AttemptStatus,
        by: Actor,
        reason: Option<String>,
        now: Timestamp,
        trail: &mut Trail,
    ) {
        trail.attempts.insert(ordinal);
        let event = self.event(now, EventKind::Attempt, by);
        let to = self.newest_attempt().map(|a| a.status.to_string());
        trail.events.push(Event {
            from: Some(before.to_string()),
            to,
            reason,
            attempt: Some(ordinal),
            ..event
        });
    }

    fn attempt_mut(&mut self, ordinal: u32) -> &mut Attempt {
        let at = usize::try_from(ordinal).unwrap_or(usize::MAX);
        #[expect(clippy::indexing_slicing, reason = "the ordinal was read from this list by the caller")]
        &mut self.attempts[at]
    }

    fn event(&self, now: Timestamp, kind: EventKind, by: Actor) -> Event {
        Event {
            id: 0,
            run_id: self.run.id.clone(),
            time_ms: now,
            kind,
            from: None,
            to: None,
            by,
            reason: None,
            attempt: None,
            rank: None,
            evidence: None,
        }
    }
}

impl Conclusion {
    /// The controller's process on this host is gone.
    #[must_use]
    pub fn process_gone(pid: u32, host: &str, end_time: Timestamp, seen: Timestamp) -> Self {
        Self {
            detail: format!("controller process {pid} on {host} is gone (seen {})", seen.time_of_day()),
            end_time,
            by: Actor::Reconciler,
            evidence: serde_json::json!({"process": {"state": "exited", "pid": pid, "host": host}}),
        }
    }

    /// The controller was silent for a whole lease.
    #[must_use]
    pub fn lease_expired(last_contact: Timestamp, lease: Duration) -> Self {
        Self {
            detail: format!(
                "no contact with the controller since {} (lease {} s)",
                last_contact.time_of_day(),
                lease.as_secs_f64()
            ),
            end_time: last_contact,
            by: Actor::Reconciler,
            evidence: serde_json::json!({
                "contact": {"last_contact_ms": last_contact.as_ms(), "lease_ttl_ms": number::millis(lease)},
            }),
        }
    }

    /// A user's stop was not confirmed by the controller within its limit.
    #[must_use]
    pub fn stop_unconfirmed(stop: &Stop, now: Timestamp) -> Self {
        let reason = stop.reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
        Self {
            detail: format!("stopped by user (API){reason}; the controller did not confirm it in time"),
            end_time: now,
            by: Actor::User,
            evidence: serde_json::json!({"stop_requested_at_ms": stop.requested_at.as_ms()}),
        }
    }
}
