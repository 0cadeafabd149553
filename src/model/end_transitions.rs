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
    /// Whether it was the end of the controller's process that was seen.
    pub process_ended: bool,
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
        let Conclusion { detail, end_time, by, process_ended, evidence } = conclusion;
        self.controller.process_ended = process_ended.then_some(now);
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
        self.restore(Actor::Reconciler, now, trail);
        self.run.phase = concluded.phase;
        self.run.controller_state = concluded.controller_state;
        self.run.status_detail = None;
        self.run.ended_by = None;
        self.run.end_time = None;
        self.run.noticed_at = None;
        self.controller.status = ActorStatus::Alive;
        self.controller.process_ended = None;
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
            process_ended: true,
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
            process_ended: false,
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
            process_ended: false,
            evidence: serde_json::json!({"stop_requested_at_ms": stop.requested_at.as_ms()}),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        base::{ActorId, AttemptId, RunId, secret::SigningKey},
        model::{
            commands::RegisterRun,
            people::AnnotateRun,
            verbs::{
                AttemptRunning, BeginAttempt, EndAttempt, NewWorker, SetState, WorkerChange, WorkerChanges,
            },
        },
    };

    /// One thing that may happen to a run; numbers choose among what is there.
    #[derive(Clone, Debug)]
    enum Op {
        State(ControllerState),
        Begin(u32),
        Running(u32),
        Kill(u32, u32),
        EndAttempt(AttemptStatus, EndReason),
        Stop,
        End(RunStatus, i64),
        Conclude(i64),
        Unconfirmed,
        ComeBack,
        TakeOver,
        Resume,
        Annotate(u8),
        Trash,
        Restore,
    }

    fn ops() -> impl Strategy<Value = Op> {
        let state = prop::sample::select(ControllerState::ALL);
        let status = prop::sample::select(AttemptStatus::ALL);
        let reason = prop::sample::select(EndReason::ALL);
        prop_oneof![
            4 => state.prop_map(Op::State),
            4 => (1..4u32).prop_map(Op::Begin),
            4 => (1..4u32).prop_map(Op::Running),
            2 => (0..3u32, 0..4u32).prop_map(|(a, r)| Op::Kill(a, r)),
            3 => (status, reason).prop_map(|(s, r)| Op::EndAttempt(s, r)),
            1 => Just(Op::Stop),
            1 => (prop::sample::select(RunStatus::ALL), -5000..5000i64).prop_map(|(s, t)| Op::End(s, t)),
            2 => (-5000..5000i64).prop_map(Op::Conclude),
            1 => Just(Op::Unconfirmed),
            2 => Just(Op::ComeBack),
            1 => Just(Op::TakeOver),
            2 => Just(Op::Resume),
            1 => any::<u8>().prop_map(Op::Annotate),
            2 => Just(Op::Trash),
            1 => Just(Op::Restore),
        ]
    }

    fn worker(rank: u32) -> NewWorker {
        serde_json::from_value(
            json!({"actor_id": format!("w{rank}"), "world_rank": rank, "node_id": "h", "node_ip": "i"}),
        )
        .unwrap()
    }

    fn apply(record: &mut RunRecord, op: Op, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        let newest = record.newest_attempt().map_or_else(AttemptId::generate, |a| a.id.clone());
        let at = |offset: i64| Timestamp::from_ms(now.as_ms() + offset);
        match op {
            Op::State(state) => record.set_state(SetState { state, status_detail: None }, now, trail),
            Op::Begin(num_workers) => {
                let begun = BeginAttempt::unreserved(AttemptId::generate(), num_workers, None);
                record.begin_attempt(begun, Vec::new(), now, trail)
            }
            Op::Running(n) => {
                let workers = (0..n).map(worker).collect();
                record.attempt_running(&newest, AttemptRunning { workers, master_address: None }, now, trail)
            }
            Op::Kill(attempt, world_rank) => {
                let id =
                    record.attempts.get(usize::try_from(attempt).unwrap()).map_or(newest, |a| a.id.clone());
                let change = WorkerChange { world_rank, status: WorkerStatus::Dead, exit: None };
                record.change_workers(&id, WorkerChanges { workers: vec![change] }, now, trail)
            }
            Op::EndAttempt(status, end_reason) => record.end_attempt(
                &newest,
                EndAttempt { status, end_reason, status_detail: None, stop_report: None },
                now,
                trail,
            ),
            Op::Stop => record.request_stop(StopRun::default(), now, trail),
            Op::End(run_status, offset) => {
                let end_time_ms = Some(at(offset));
                record.end(
                    EndRun { run_status, status_detail: None, end_time_ms, first_failure: None },
                    now,
                    trail,
                )
            }
            Op::Conclude(offset) => {
                record.conclude(Conclusion::lease_expired(at(offset), Duration::from_secs(30)), now, trail);
                Ok(())
            }
            Op::Unconfirmed => {
                if let Some(stop) = record.run.stop.clone() {
                    record.conclude(Conclusion::stop_unconfirmed(&stop, now), now, trail);
                }
                Ok(())
            }
            Op::ComeBack => {
                record.come_back(now, "it spoke", trail);
                Ok(())
            }
            Op::Annotate(n) => {
                let tags = BTreeMap::from([(format!("k{}", n % 120), (n > 9).then(|| n.to_string()))]);
                record.annotate(AnnotateRun { tags, ..AnnotateRun::default() }, now, trail)
            }
            Op::Trash => record.trash(now, trail),
            Op::Restore => {
                record.restore(Actor::User, now, trail);
                Ok(())
            }
            Op::TakeOver => {
                let token = SigningKey::generate().unwrap().token(&["t"]).hash();
                record.take_over(RegisterRun::by(ActorId::generate()), token, now, trail)
            }
            Op::Resume => {
                let token = SigningKey::generate().unwrap().token(&["t"]).hash();
                let body = RegisterRun { resume: true, ..RegisterRun::by(ActorId::generate()) };
                record.resume(body, token, now, trail)
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The invariants of 02-states.md hold after whatever happens; what is refused changes nothing; what a user or a
        /// controller ended does not come back unless it is resumed, and then with all its attempts; every change of
        /// phase is an event.
        #[test]
        fn the_invariants_hold_over_any_sequence(sequence in prop::collection::vec((ops(), -50i64..500), 1..40)) {
            let mut now = Timestamp::from_ms(1_800_000_000_000);
            let mut trail = Trail::default();
            let token = SigningKey::generate().unwrap().token(&["t"]).hash();
            let body = RegisterRun::by(ActorId::generate());
            let mut record = RunRecord::register(RunId::generate(), body, String::new(), token, now, &mut trail);
            for (op, passes) in sequence {
                now = Timestamp::from_ms(now.as_ms() + passes);
                let before = record.clone();
                let mut trail = Trail::default();
                let said = apply(&mut record, op.clone(), now, &mut trail);
                if let Err(broken) = record.check_invariants() {
                    prop_assert!(false, "{op:?}: {broken}\n{before:#?}\n{record:#?}");
                }
                let came_back = matches!(op, Op::ComeBack | Op::End(..) | Op::TakeOver) && before.run.concluded.is_some();
                if said.is_err() && !came_back {
                    prop_assert_eq!(&before, &record, "a refused {:?} changed something", op);
                }
                let resumed = matches!(op, Op::Resume) && said.is_ok();
                if resumed {
                    prop_assert!(before.run.phase.is_terminal() && before.run.phase != Phase::Finished);
                    prop_assert_eq!(record.run.phase, Phase::Initializing);
                    prop_assert_eq!(&before.attempts, &record.attempts);
                    prop_assert_eq!(before.controller.epoch + 1, record.controller.epoch);
                }
                if before.run.phase.is_terminal() && before.run.concluded.is_none() && !resumed {
                    prop_assert_eq!(before.run.end_time, record.run.end_time);
                    prop_assert_eq!(before.run.phase, record.run.phase);
                }
                if before.run.phase != record.run.phase {
                    let last = trail.events.iter().rev().find(|e| e.kind == EventKind::Run);
                    prop_assert_eq!(last.and_then(|e| e.to.as_deref()), Some(record.run.phase.as_str()));
                }
            }
        }
    }
}
