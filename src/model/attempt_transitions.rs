//! The verbs about attempts and workers. Each checks the whole change before it makes any of it.

use std::collections::BTreeMap;

use super::{
    Actor, Attempt, AttemptStatus, EndReason, Event, EventKind, Exit, Phase, Refusal, RunRecord, Trail,
    Worker, WorkerStatus,
    ledger::Bundle,
    names::cut_detail,
    verbs::{AttemptRunning, BeginAttempt, EndAttempt, WorkerChanges},
    worker::CONTROLLER_LOST,
};
use crate::base::{AttemptId, Invalid, Timestamp};

impl RunRecord {
    /// A worker group is being placed, with what was reserved for it: as many workers as that is for, if anything is.
    ///
    /// # Errors
    /// When the run has ended or another attempt is live. The same attempt again is not an error.
    pub fn begin_attempt(
        &mut self,
        body: BeginAttempt,
        reservation: Vec<Bundle>,
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
        let placed = u32::try_from(reservation.len())
            .map_err(|_| Invalid::rule("num_workers", "a group cannot be so large"))?;
        let detail = body.status_detail.map(cut_detail);
        self.attempts.push(Attempt {
            id: body.attempt_id,
            ordinal,
            status: AttemptStatus::Pending,
            end_reason: None,
            status_detail: detail.clone(),
            start_time: now,
            end_time: None,
            num_workers: if reservation.is_empty() { body.num_workers } else { placed },
            reservation,
            master_address: None,
            stop_report: None,
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
    /// When the attempt is unknown or not pending, or the number of workers is another one than the attempt was placed with.
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
                format!("the attempt has {} workers, not {}", attempt.num_workers, body.workers.len()),
            )
            .into());
        }
        let phase = self.run.phase.to(Phase::Running)?;
        let attempt = self.attempt_mut(ordinal);
        attempt.status = status;
        attempt.status_detail = None;
        attempt.master_address = body.master_address;
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
        let ordinal = attempt.ordinal;
        self.attempt_mut(ordinal).stop_report = body.stop_report;
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

    pub(super) fn close_live_attempt(
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
}
