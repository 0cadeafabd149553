//! The verbs: every way in which a run's record may change. Each checks the whole change before it makes any of it,
//! so a refused verb leaves the record untouched.

use std::collections::BTreeMap;

use super::{
    Actor, AttemptStatus, EndReason, Event, EventKind, Phase, Refusal, RunRecord, RunStatus, Trail,
    commands::RegisterRun,
    names::{cut_detail, made_up_name},
    run::{ActorStatus, Controller, Run},
    verbs::SetState,
};
use crate::base::{Invalid, RunId, Timestamp, TokenHash, limits, number};

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
                settings: body.settings.into(),
                datasets: body.datasets,
                framework_versions: body.framework_versions,
                tags: body.tags,
                notes: None,
                trashed_at: None,
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
                process_ended: None,
                clock_skew_ms: None,
            },
            attempts: Vec::new(),
            checkpoints: BTreeMap::new(),
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
        let old = self.controller.actor_id.clone();
        self.replace_controller(body, token, now);
        let event = self.event(now, EventKind::Controller, Actor::Controller);
        trail.events.push(Event {
            from: Some(old.to_string()),
            to: Some(self.controller.actor_id.to_string()),
            reason: Some(format!("taken over, epoch {}", self.controller.epoch)),
            ..event
        });
        Ok(())
    }

    /// A run that has ended goes on in its own record under another controller: its attempts stay, with what its failure
    /// budgets were charged with. Of its end only the trail speaks from now on.
    ///
    /// # Errors
    /// When the run lives, or has finished.
    pub fn resume(
        &mut self,
        body: RegisterRun,
        token: TokenHash,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        match self.run.status() {
            RunStatus::Started => return Err(Refusal::RunExists(self.run.id.clone())),
            RunStatus::Finished => return Err(Refusal::NothingToResume),
            RunStatus::Errored | RunStatus::Aborted => {}
        }
        self.restore(Actor::User, now, trail);
        self.replace_controller(body, token, now);
        self.run.status_detail = None;
        self.run.ended_by = None;
        self.run.end_time = None;
        self.run.noticed_at = None;
        self.run.stop = None;
        self.run.concluded = None;
        self.run.first_failure = None;
        let reason = format!("resumed, epoch {}", self.controller.epoch);
        self.enter(Phase::Initializing, Actor::User, Some(reason), now, trail);
        Ok(())
    }

    fn replace_controller(&mut self, body: RegisterRun, token: TokenHash, now: Timestamp) {
        let lease_ttl = body.lease_ttl();
        let old = &self.controller;
        self.controller = Controller {
            actor_id: body.controller.actor_id,
            epoch: old.epoch + 1,
            token,
            stale_tokens: [old.stale_tokens.clone(), vec![old.token]].concat(),
            status: ActorStatus::Alive,
            lease_ttl,
            last_contact: now,
            process: body.controller.process,
            process_ended: None,
            clock_skew_ms: None,
        };
        self.run.controller_state = None;
        // What a resumed run is started with now; who only takes over says nothing of it.
        if body.resume && !body.settings.is_empty() {
            self.run.settings = body.settings.into();
        }
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

    /// The controller was heard of. `client_time` is its own clock's word; it decides nothing.
    pub fn contact(&mut self, client_time: Option<Timestamp>, now: Timestamp) {
        self.controller.last_contact = now;
        if let Some(time) = client_time {
            let skew = time.as_ms().saturating_sub(now.as_ms());
            let notable = skew.unsigned_abs() > number::millis(limits::CLOCK_SKEW).unsigned_abs();
            self.controller.clock_skew_ms = notable.then_some(skew);
        }
    }

    pub(super) fn enter(
        &mut self,
        phase: Phase,
        by: Actor,
        reason: Option<String>,
        now: Timestamp,
        trail: &mut Trail,
    ) {
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

    pub(super) fn event(&self, now: Timestamp, kind: EventKind, by: Actor) -> Event {
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
