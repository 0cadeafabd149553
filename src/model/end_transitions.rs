//! How runs end and come back: by the controller's word, by a user, by what is concluded of a controller that is gone.

use std::time::Duration;

use super::{
    Actor, AttemptStatus, ControllerState, EndReason, Event, EventKind, Phase, Refusal, RunRecord, RunStatus,
    Trail, WorkerStatus,
    commands::StopRun,
    names::cut_detail,
    run::{ActorStatus, Concluded, Stop},
    verbs::EndRun,
    worker::CONTROLLER_LOST,
};
use crate::base::{Invalid, Timestamp, number};

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
