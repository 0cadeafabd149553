//! What may happen to a run's checkpoints: its controller says how they stand, people pin them.

use super::{
    Actor, Checkpoint, CheckpointState, Event, EventKind, RecordCheckpoint, Refusal, RunRecord, Trail,
    checkpoint::{RETENTION, Ranking, Retention},
    people::Pin,
};
use crate::base::{Invalid, Timestamp, limits};

impl RunRecord {
    /// A checkpoint was committed, or stands elsewhere now. The same again changes nothing. The body must have passed
    /// `check`.
    ///
    /// # Errors
    /// When the number is another checkpoint's, it does not go there, or the run has too many.
    pub fn record_checkpoint(
        &mut self,
        number: u64,
        body: RecordCheckpoint,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        let (from, next, pinned) = match self.checkpoints.get(&number) {
            Some(known) if known.record == body => return Ok(()),
            Some(known) => (Some(known.record.state), known.record.followed_by(body)?, known.pinned),
            None => {
                self.make_room(trail)?;
                (None, body, false)
            }
        };
        trail.checkpoints.insert(number);
        if from != Some(next.state) {
            let event = self.checkpoint_event(number, next.step, now, Actor::Controller);
            trail.events.push(Event {
                from: from.map(|state| state.to_string()),
                to: Some(next.state.to_string()),
                reason: next.status_detail.clone().or(event.reason),
                attempt: Some(next.attempt),
                ..event
            });
        }
        self.checkpoints.insert(number, Checkpoint { number, record: next, pinned });
        Ok(())
    }

    /// Keeps a checkpoint whatever retention says, or not any longer. Again is not an error.
    ///
    /// # Errors
    /// When there is no such checkpoint, or it is gone.
    pub fn pin_checkpoint(
        &mut self,
        number: u64,
        pin: Pin,
        now: Timestamp,
        trail: &mut Trail,
    ) -> Result<(), Refusal> {
        let run = self.run.id.clone();
        let known = self.checkpoints.get_mut(&number).ok_or(Refusal::CheckpointNotFound { run, number })?;
        let (state, step) = (known.record.state, known.record.step);
        let pinned = pin == Pin::Set;
        if pinned && matches!(state, CheckpointState::Missing | CheckpointState::Deleted) {
            return Err(Refusal::CheckpointGone { number, state });
        }
        if std::mem::replace(&mut known.pinned, pinned) != pinned {
            trail.checkpoints.insert(number);
            let event = self.checkpoint_event(number, step, now, Actor::User);
            let word = Some("pinned".to_owned());
            let (from, to) = if pinned { (None, word) } else { (word, None) };
            trail.events.push(Event { from, to, ..event });
        }
        Ok(())
    }

    /// Checkpoints that people want kept.
    #[must_use]
    pub fn pinned_checkpoints(&self) -> Vec<u64> {
        self.checkpoints.values().filter(|c| c.pinned).map(|c| c.number).collect()
    }

    /// How its checkpoints stand to each other.
    #[must_use]
    pub fn rank_checkpoints(&self) -> Ranking {
        self.run.settings.get::<Retention>(RETENTION).unwrap_or_default().rank(self.checkpoints.values())
    }

    fn checkpoint_event(&self, number: u64, step: u64, now: Timestamp, by: Actor) -> Event {
        let event = self.event(now, EventKind::Checkpoint, by);
        Event { reason: Some(format!("checkpoint {number}, step {step}")), ..event }
    }

    /// Of those that are gone the oldest is forgotten when there are too many.
    fn make_room(&mut self, trail: &mut Trail) -> Result<(), Refusal> {
        if self.checkpoints.len() < limits::CHECKPOINTS {
            return Ok(());
        }
        let gone =
            |c: &&Checkpoint| matches!(c.record.state, CheckpointState::Deleted | CheckpointState::Missing);
        let oldest = self.checkpoints.values().find(gone).map(|c| c.number);
        let Some(oldest) = oldest else {
            return Err(Invalid::over("number", limits::CHECKPOINTS, "checkpoints in a run").into());
        };
        self.checkpoints.remove(&oldest);
        // A row whose checkpoint is not in the record is removed.
        trail.checkpoints.insert(oldest);
        Ok(())
    }
}
