//! What the loop has to do with checkpoints: what a group goes on from before it is started, what is left of them when it
//! has ended, and what there is to say of them. Nothing here waits.

use futures_util::FutureExt;
use tracing::info;

use super::{
    callbacks::Hook,
    checkpoints::{CheckpointEvent, Resume, Wait},
    group::WorkerGroup,
    policy::Permanent,
    run::TrainController,
    steps::{Effect, Input},
    words,
};
use crate::model::{Checkpoint, verbs::RunVerb};

impl<G: WorkerGroup> TrainController<G> {
    /// Nothing of the group is left; its attempt is over when nothing of its checkpoints is under way.
    pub(super) fn close(&mut self, input: Input) {
        let wait = if self.machine.is_finishing() { Wait::Validations } else { Wait::Uploads };
        self.waits.closing = Some(self.desk.close_attempt(self.machine.attempt(), wait));
        self.over = Some(input);
    }

    pub(super) fn closed(&mut self) {
        // What is known of them is said before the end, after which nobody would.
        while let Some(event) = self.desk.event().now_or_never() {
            self.of_checkpoints(event);
        }
        if let Some(input) = self.over.take() {
            self.step(input);
        }
    }

    /// What the group goes on from is known. Where checkpoints cannot be used it is not started, since it would begin anew:
    /// at the controller's first attempt that will be so the next time, too.
    pub(super) fn resumes(&mut self, resume: Resume) {
        if resume.failed {
            self.effects.retain(|effect| !matches!(effect, Effect::Start { .. }));
            let permanent = if self.began { Permanent::No } else { Permanent::Yes };
            let message = resume.notes.join("; ");
            return self.step(Input::StartFailed { message, permanent });
        }
        self.began = true;
        let words = words::resumes(&resume);
        self.ready = Some(resume);
        if let Some(words) = words {
            info!(run.id = %self.run_id, "{words}");
            self.step(Input::Resumes(words));
        }
        self.perform();
    }

    pub(super) fn of_checkpoints(&mut self, event: CheckpointEvent) {
        let say = |c: Checkpoint| RunVerb::RecordCheckpoint(c.number, Box::new(c.record));
        match event {
            CheckpointEvent::Changed(checkpoint) => self.outbox.say(say(checkpoint)),
            CheckpointEvent::Committed(checkpoint) => {
                self.callbacks.call(Hook::CheckpointCommit(Box::new(checkpoint.clone())));
                self.outbox.say(say(checkpoint));
            }
            CheckpointEvent::Waits(words) => self.step(Input::Checkpoints(words)),
            // The desk has warned of it.
            CheckpointEvent::Failed(words) => self.step(Input::Checkpoints(Some(words))),
            CheckpointEvent::TimedOut(words) => self.step(Input::CheckpointTimedOut(words)),
        }
    }
}
