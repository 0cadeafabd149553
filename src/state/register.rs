//! Registering: a new run, the same one again, one that another controller goes on with, or one to deliver metrics to.

use super::{
    StateError,
    apply::merge,
    group::{Around, Group},
    report::writer_token,
    working_set::WorkingSet,
};
use crate::{
    base::{RunId, Secret, secret::SigningKey},
    model::{
        Refusal, RunRecord, Trail,
        commands::{RegisterRun, Registration},
        progress::Progress,
    },
};

impl WorkingSet {
    pub(super) fn register(
        &mut self,
        id: &RunId,
        body: RegisterRun,
        body_hash: String,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<Registration, StateError> {
        let actor = body.controller.actor_id.clone();
        let token =
            |key: &SigningKey, epoch: u32| key.token(&[id.as_str(), &epoch.to_string(), actor.as_str()]);
        let (epoch, created) = match self.records.get_mut(id) {
            None if body.resume => return Err(Refusal::RunNotFound(id.clone()).into()),
            None => {
                let mut trail = Trail::default();
                let hash = token(&self.key, 1).hash();
                let record = RunRecord::register(id.clone(), body, body_hash, hash, around.now, &mut trail);
                self.bring_to_life(
                    &record,
                    Progress::default(),
                    around.live,
                    around.processes,
                    around.monotonic,
                );
                self.records.insert(id.clone(), record);
                group.touched.insert(id.clone(), trail);
                (1, true)
            }
            Some(record)
                if record.controller.actor_id == actor
                    && record.run.body_hash == body_hash
                    && !((body.resume || body.join) && record.run.phase.is_terminal()) =>
            {
                let epoch = record.controller.epoch;
                self.heard_of(id, None, "the controller registered again", group, around);
                (epoch, false)
            }
            // It stays its controller's, whoever that is and whether it lives.
            Some(record) if body.join => {
                return Ok(registration(record, writer_token(&self.key, id)));
            }
            Some(record) if resumes(record, &body) || replaces(record, &body) => {
                let epoch = record.controller.epoch + 1;
                let mut trail = Trail::default();
                let hash = token(&self.key, epoch).hash();
                if resumes(record, &body) {
                    record.resume(body, hash, around.now, &mut trail)?;
                } else {
                    record.take_over(body, hash, around.now, &mut trail)?;
                }
                record.run.body_hash = body_hash;
                // What its last controller wanted and had is not this one's.
                around.account(record);
                around.ledger.write().want(id, None);
                merge(group.touched.entry(id.clone()).or_default(), trail);
                let record = record.clone();
                let known = around.live.remove(id).map(|l| l.progress);
                let progress = known.or_else(|| self.rested.remove(id)).unwrap_or_default();
                around.processes.forget(id);
                self.bring_to_life(&record, progress, around.live, around.processes, around.monotonic);
                (epoch, true)
            }
            Some(record) if record.run.phase.is_terminal() => {
                return Err(Refusal::RunEnded(record.run.status()).into());
            }
            Some(_) => return Err(Refusal::RunExists(id.clone()).into()),
        };
        let record = self.records.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        Ok(Registration { created, ..registration(record, token(&self.key, epoch)) })
    }
}

fn registration(record: &RunRecord, token: Secret) -> Registration {
    Registration {
        run_id: record.run.id.clone(),
        name: record.run.name.clone(),
        token,
        epoch: record.controller.epoch,
        created: false,
        num_attempts: u32::try_from(record.attempts.len()).unwrap_or(u32::MAX),
        num_failures: record.num_failures(),
    }
}

/// Whether the run has ended and shall go on.
fn resumes(record: &RunRecord, body: &RegisterRun) -> bool {
    body.resume && record.run.phase.is_terminal()
}

/// Whether another controller may drive the run instead of the one that it has.
fn replaces(record: &RunRecord, body: &RegisterRun) -> bool {
    record.run.concluded.is_some() || body.takeover
}
