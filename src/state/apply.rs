//! Deciding: a plain function from a command and the records in memory to changed records, rows to write and an answer
//! to send once they are written. No I/O, no waiting.

use std::collections::BTreeSet;

use super::{
    command::{Command, Edit},
    group::{Around, Group},
    working_set::{WorkingSet, stop_limit},
};
use crate::{
    base::{Invalid, RunId, Secret},
    model::{
        Actor, Refusal, RunRecord, Trail,
        commands::{Heartbeat, HeartbeatAnswer, StopRun},
        ledger::Bundle,
        placement::Shortage,
        verbs::{BeginAttempt, Begun, RunVerb},
    },
};

impl WorkingSet {
    /// Decides one command.
    pub(super) fn apply(&mut self, command: Command, group: &mut Group, around: Around<'_>) {
        group.visited.extend(command.runs());
        match command {
            Command::Register { run, body, body_hash, reply } => {
                match self.register(&run, *body, body_hash, group, around) {
                    Ok(registration) => {
                        group.answer_listed(reply, run, Ok(()), move |ack| (registration, ack));
                    }
                    Err(e) => group.answer(reply, Err(e)),
                }
            }
            Command::Seal { run, last, sealing, reply } => {
                let result = self.seal(run, last, &sealing, group, around);
                group.answer(reply, result);
            }
            Command::Verb { run, token, verb, reply } => {
                let result = self.verb(&run, &token, verb, group, around);
                group.answer_listed(reply, run, result.map_err(Into::into), |ack| ack);
            }
            Command::BeginAttempt { run, token, body, reply } => {
                let result = self.begin_attempt(&run, &token, body, group, around);
                let (result, begun) = match result {
                    Ok(begun) => (Ok(()), begun),
                    Err(refusal) => (Err(refusal.into()), Begun::default()),
                };
                group.answer_listed(reply, run, result, |ack| (begun, ack));
            }
            Command::Stop { run, body, reply } => {
                let result = self.stop(&run, body, group, around);
                group.answer_listed(reply, run, result.map_err(Into::into), |ack| ack);
            }
            Command::Edit { run, edit, reply } => {
                let result = self.edit(&run, edit, group, around.now);
                group.answer_listed(reply, run, result.map_err(Into::into), |ack| ack);
            }
            Command::Purge { runs, reply } => {
                let purged = runs.into_iter().filter(|run| self.purge(run, group, around)).collect();
                group.answer(reply, Ok(purged));
            }
            Command::Contact { run, token, reply } => {
                let known = self.authorized(&run, &token).map(drop);
                if known.is_ok() {
                    self.heard_of(&run, None, "the controller was heard of again", group, around);
                }
                group.answer(reply, known.map_err(Into::into));
            }
            Command::Report { run, token, points, reply } => {
                let result = self.report(&run, &token, points, group, around).map_err(Into::into);
                group.answer(reply, result);
            }
            Command::Heartbeats { beats, reply } => {
                let mut answers: Vec<HeartbeatAnswer> =
                    beats.into_iter().map(|beat| self.heartbeat(beat, group, around)).collect();
                // Only now, as what one of them wants may be another one's to give.
                let mut ledger = around.ledger.write();
                for answer in answers.iter_mut().filter(|answer| answer.problem.is_none()) {
                    answer.fits = ledger.fits(&answer.run_id);
                }
                group.answer(reply, Ok(answers));
            }
            Command::Reconcile { reply } => {
                self.reconcile(group, around);
                group.answer(reply, Ok(()));
            }
            Command::KeepWebhook { place, reply } => {
                let (row, letters) = place.rows();
                group.batch.webhook(&row);
                letters.iter().for_each(|letter| group.batch.dead_letter(letter));
                group.answer(reply, Ok(()));
            }
        }
    }

    fn verb(
        &mut self,
        id: &RunId,
        token: &Secret,
        verb: RunVerb,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<(), Refusal> {
        self.authorized(id, token)?;
        // An end has its own way of coming back, after which its word stands.
        if !matches!(verb, RunVerb::End(_)) {
            self.heard_of(id, None, "the controller was heard of again", group, around);
        }
        let record = self.records.get_mut(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let mut trail = Trail::default();
        let moves_state = matches!(verb, RunVerb::SetState(_));
        let now = around.now;
        match verb {
            RunVerb::SetState(body) => record.set_state(body, now, &mut trail)?,
            RunVerb::BeginAttempt(body) => {
                let reservation = reserve(record, &body, group, around)?;
                record.begin_attempt(body, reservation, now, &mut trail)?
            }
            RunVerb::AttemptRunning(attempt, body) => {
                let nodes: BTreeSet<(String, String)> =
                    body.workers.iter().map(|w| (w.node_id.clone(), w.node_ip.clone())).collect();
                record.attempt_running(&attempt, body, now, &mut trail)?;
                note_nodes(&nodes, group, around);
            }
            RunVerb::ChangeWorkers(attempt, body) => {
                record.change_workers(&attempt, body, now, &mut trail)?
            }
            RunVerb::EndAttempt(attempt, body) => record.end_attempt(&attempt, body, now, &mut trail)?,
            RunVerb::RecordCheckpoint(number, body) => {
                record.record_checkpoint(number, *body, now, &mut trail)?;
            }
            RunVerb::End(body) => record.end(*body, now, &mut trail)?,
        }
        around.account(record);
        let ended = record.run.phase.is_terminal();
        if moves_state || !trail.events.is_empty() {
            merge(group.touched.entry(id.clone()).or_default(), trail);
        }
        if ended {
            self.let_rest(id, group, around);
        }
        Ok(())
    }

    /// Begins an attempt; what it got is read from its record, so that the same attempt again gets the same answer.
    fn begin_attempt(
        &mut self,
        id: &RunId,
        token: &Secret,
        body: BeginAttempt,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<Begun, Refusal> {
        let attempt_id = body.attempt_id.clone();
        self.verb(id, token, RunVerb::BeginAttempt(body), group, around)?;
        let record = self.records.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let attempt = record.attempt(&attempt_id)?;
        Ok(Begun { num_workers: attempt.num_workers, reservation: attempt.reservation.clone() })
    }

    fn stop(
        &mut self,
        id: &RunId,
        body: StopRun,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<(), Refusal> {
        let record = self.records.get_mut(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let mut trail = Trail::default();
        record.request_stop(body, around.now, &mut trail)?;
        if let Some(stop) = &record.run.stop {
            self.stops.renew(id, stop_limit(stop, record.controller.lease_ttl), around.monotonic);
        }
        merge(group.touched.entry(id.clone()).or_default(), trail);
        Ok(())
    }

    fn edit(
        &mut self,
        id: &RunId,
        edit: Edit,
        group: &mut Group,
        now: crate::base::Timestamp,
    ) -> Result<(), Refusal> {
        let record = self.records.get_mut(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let mut trail = Trail::default();
        match edit {
            Edit::Annotate(body) => record.annotate(body, now, &mut trail)?,
            Edit::Pin(number, pin) => record.pin_checkpoint(number, pin, now, &mut trail)?,
            Edit::Trash => record.trash(now, &mut trail)?,
            Edit::Restore => record.restore(Actor::User, now, &mut trail),
        }
        if !trail.events.is_empty() {
            merge(group.touched.entry(id.clone()).or_default(), trail);
        }
        Ok(())
    }

    /// Deletes a run that is in the trash. One that changed in this very group waits for another time, so that nothing
    /// of it is written after its end.
    fn purge(&mut self, id: &RunId, group: &mut Group, around: Around<'_>) -> bool {
        let trashed = self.records.get(id).is_some_and(|record| record.run.trashed_at.is_some());
        let purged = trashed && !group.touched.contains_key(id);
        if purged {
            self.records.remove(id);
            self.metrics.remove(id);
            self.rested.remove(id);
            group.batch.purge(id, &around.windows.unsealed(id));
            group.purged.push(id.clone());
        }
        purged
    }

    fn heartbeat(&mut self, beat: Heartbeat, group: &mut Group, around: Around<'_>) -> HeartbeatAnswer {
        let Heartbeat { run_id, controller_token, time_ms, progress, demand } = beat;
        let problem = self.authorized(&run_id, &controller_token).err();
        if problem.is_none() {
            self.heard_of(&run_id, time_ms, "the controller was heard of again", group, around);
            if let Some(step) = progress.and_then(|p| i64::try_from(p.step).ok()) {
                let attempt =
                    self.records.get(&run_id).and_then(|r| r.newest_attempt()).map_or(0, |a| a.ordinal);
                around.live.update(&run_id, |facts| facts.progress.report(attempt, 0, step, around.now));
            }
        }
        let record = self.records.get(&run_id);
        if problem.is_none() && record.is_some_and(|r| !r.run.phase.is_terminal()) {
            around.ledger.write().want(&run_id, demand);
        }
        let ended = record.filter(|r| r.run.phase.is_terminal()).map(|r| Refusal::RunEnded(r.run.status()));
        let stop = record.and_then(|r| r.run.stop.as_ref()).filter(|_| problem.is_none());
        HeartbeatAnswer {
            epoch: record.map(|r| r.controller.epoch),
            stop_requested: stop.is_some(),
            stop_reason: stop.and_then(|s| s.reason.clone()),
            grace_period_ms: stop.and_then(|s| s.grace_period_ms),
            fits: None,
            pinned_checkpoints: record
                .filter(|_| problem.is_none())
                .map(RunRecord::pinned_checkpoints)
                .unwrap_or_default(),
            problem: problem.or(ended).map(|p| slug(&p).to_owned()),
            run_id,
        }
    }

    fn authorized(&self, id: &RunId, token: &Secret) -> Result<&RunRecord, Refusal> {
        let record = self.records.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        record.authorize(token)?;
        Ok(record)
    }
}

/// What is reserved for a new attempt, if it asks for anything and is new.
fn reserve(
    record: &RunRecord,
    body: &BeginAttempt,
    group: &mut Group,
    around: Around<'_>,
) -> Result<Vec<Bundle>, Refusal> {
    let refused = record.run.phase.is_terminal() || record.live_attempt().is_some();
    if refused || record.attempt(&body.attempt_id).is_ok() {
        return Ok(Vec::new());
    }
    let mut ledger = around.ledger.write();
    for offer in &body.nodes {
        if ledger.know(offer) {
            group.batch.node(offer, around.now);
        }
    }
    let Some(demand) = body.demand() else { return Ok(Vec::new()) };
    ledger.place(&record.run.id, &demand).map_err(|shortage| match shortage {
        Shortage::Never(why) => Invalid::rule("resources_per_worker", why).into(),
        Shortage::NotNow(why) => Refusal::NoResources(why),
    })
}

/// Takes note of nodes that workers are on.
fn note_nodes(nodes: &BTreeSet<(String, String)>, group: &mut Group, around: Around<'_>) {
    let mut ledger = around.ledger.write();
    for (node_id, node_ip) in nodes {
        if let Some(offer) = ledger.seen(node_id, node_ip) {
            group.batch.node(&offer, around.now);
        }
    }
}

pub(super) fn merge(into: &mut Trail, from: Trail) {
    let Trail { events, attempts, workers, checkpoints } = from;
    into.events.extend(events);
    into.attempts.extend(attempts);
    into.workers.extend(workers);
    into.checkpoints.extend(checkpoints);
}

/// The stable word for a refusal, in problems and heartbeats.
pub(crate) const fn slug(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::RunNotFound(_) => "run-not-found",
        Refusal::AttemptNotFound { .. } => "attempt-not-found",
        Refusal::CheckpointNotFound { .. } => "checkpoint-not-found",
        Refusal::CheckpointGone { .. } => "checkpoint-gone",
        Refusal::RunExists(_) => "run-exists",
        Refusal::RunEnded(_) | Refusal::NothingToResume => "run-ended",
        Refusal::StaleController { .. } => "stale-controller",
        Refusal::WrongToken => "wrong-token",
        Refusal::IllegalTransition { .. } => "illegal-transition",
        Refusal::AttemptLive(_) => "attempt-live",
        Refusal::RunLive(_) => "run-live",
        Refusal::NoResources(_) => "no-resources",
        Refusal::LogGap { .. } => "log-gap",
        Refusal::Invalid(_) => "invalid",
    }
}
