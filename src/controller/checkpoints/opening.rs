//! The beginning of an attempt: what earlier ones left is read and cleared away, and the newest checkpoint that is whole is
//! looked for.

use std::{collections::BTreeSet, fs, sync::Arc};

use tracing::warn;

use super::{
    CheckpointEvent, Resume,
    desk::Inner,
    local::{Local, Looked},
    place::{Place, blocking},
    written::{NEXT, RunCard, SNAPSHOT, Snapshot, to_json},
};
use crate::model::{Checkpoint, CheckpointState};

impl Inner {
    /// Begins an attempt.
    pub(super) async fn begin(self: &Arc<Self>, attempt: u32, world_size: u32) -> Resume {
        let _house = self.house.lock().await;
        let given_up = self.ledger.lock().close_last();
        self.abandon(given_up);
        match self.look_for_newest().await {
            Ok(resume) => {
                self.ledger.lock().begin(attempt, world_size);
                self.start_validations();
                self.want_tidy();
                self.has_changed();
                resume
            }
            Err(e) => {
                let why = format!("checkpoints cannot be used: {e}");
                warn!("{why}");
                *self.place.lock() = Err(why.clone());
                Resume { failed: true, notes: vec![why], from: None }
            }
        }
    }

    async fn look_for_newest(self: &Arc<Self>) -> Result<Resume, String> {
        let opened = self.place();
        let place = match opened {
            Ok(place) => place,
            Err(_) => self.open_place().await?,
        };
        let (attempts, stay) = self.what_stays();
        place.sweep(attempts, stay).await?;
        let mut notes = Vec::new();
        let mut from = None;
        loop {
            let newest = self.ledger.lock().usable().first().copied();
            let Some(number) = newest else { break };
            match self.check(&place, number).await? {
                Looked::Whole(_) => {
                    from = self.usable(number, place.directory(number));
                    break;
                }
                bad => notes.extend(self.mark(number, &bad)),
            }
        }
        if let (Some(last), None) = (notes.last_mut(), &from) {
            last.push_str("; there is no other to go on from");
        }
        self.clear_cache(from.as_ref().map(|usable| usable.number)).await;
        Ok(Resume { failed: false, notes, from })
    }

    /// Reads what an earlier controller of the run left.
    async fn open_place(self: &Arc<Self>) -> Result<Place, String> {
        let place = (self.find_place)()?;
        let run = &self.run;
        let card = RunCard::new(
            &run.id,
            run.name.get().map(String::as_str),
            run.experiment.as_deref(),
            self.clock.now(),
        );
        place.prepare(to_json(&card)).await?;
        let snapshot = match place.read(SNAPSHOT).await? {
            // A machine that lost its power may leave an empty file.
            Some(bytes) if !bytes.is_empty() => Some(Snapshot::parse(&bytes)?),
            _ => None,
        };
        let (found, staged) = place.numbers().await?;
        let highest = found.iter().chain(&staged).max().map_or(0, |number| number.saturating_add(1));
        let elsewhere = self.next_elsewhere().await?;
        let highest = highest.max(elsewhere);
        if let Some(snapshot) = snapshot {
            if snapshot.run_id != run.id {
                return Err(format!("{SNAPSHOT} there is that of run {}", snapshot.run_id));
            }
            let next = snapshot.next_number.max(highest);
            self.ledger.lock().take_over(snapshot.into_checkpoints(), next);
        } else {
            self.ledger.lock().take_over(Vec::new(), highest);
        }
        self.adopt(&place, &found).await?;
        let own = Local { root: self.run.dir.clone() }.dir(0);
        let is_other = place.directory(0) != Some(own);
        if is_other && elsewhere > 0 && self.ledger.lock().all().is_empty() {
            warn!("the storage has none of this run's checkpoints: it had another one before");
        }
        self.finish_removals(&place, &found).await;
        self.settle_validations();
        *self.place.lock() = Ok(place.clone());
        Ok(place)
    }

    /// The next number as it was noted in the run's own directory, in which a run may have had its checkpoints before it
    /// got another storage: also then no number is used twice.
    async fn next_elsewhere(&self) -> Result<u64, String> {
        let own = Local { root: self.run.dir.clone() };
        let (noted, snapshot) = blocking(move || Ok((own.read(NEXT)?, own.read(SNAPSHOT)?))).await?;
        let noted = noted.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok());
        let snapshot = snapshot.and_then(|bytes| Snapshot::parse(&bytes).ok()).map(|s| s.next_number);
        Ok(noted.max(snapshot).unwrap_or(0))
    }

    /// Notes the next number in the run's own directory.
    pub(super) async fn note_next(&self) -> Result<(), String> {
        let (next, any) = {
            let ledger = self.ledger.lock();
            (ledger.next_number(), !ledger.all().is_empty())
        };
        let own = Local { root: self.run.dir.clone() };
        let is_there = self.place()?.directory(0).is_some_and(|dir| dir == own.dir(0));
        if is_there || !any {
            return Ok(());
        }
        blocking(move || {
            fs::create_dir_all(&own.root).map_err(|e| format!("{}: {e}", own.root.display()))?;
            own.write(NEXT, next.to_string().as_bytes())
        })
        .await
    }

    /// Takes in checkpoints that were whole when their controller died before it could write so.
    async fn adopt(&self, place: &Place, found: &BTreeSet<u64>) -> Result<(), String> {
        let unknown: Vec<u64> = {
            let ledger = self.ledger.lock();
            found.iter().copied().filter(|number| !ledger.knows(*number)).collect()
        };
        for number in unknown {
            match place.manifest(number).await? {
                Some(Ok(manifest)) if manifest.number == number && manifest.run_id == self.run.id => {
                    let record = manifest.record(place.uri(number));
                    let adopted = self.ledger.lock().committed(number, record);
                    self.tell(CheckpointEvent::Changed(adopted));
                    if self.options.validation.is_some() {
                        self.change(number, CheckpointState::Validating, None);
                    }
                }
                Some(Ok(other)) => {
                    warn!("{} is left alone: it is that of run {}", place.uri(number), other.run_id);
                }
                Some(Err(e)) => warn!("{} is left alone: {e}", place.uri(number)),
                None => {}
            }
        }
        Ok(())
    }

    /// Removes what its controller had written off, but not removed, when it died.
    async fn finish_removals(&self, place: &Place, found: &BTreeSet<u64>) {
        let deleted = self.ledger.lock().in_state(CheckpointState::Deleted);
        let left = deleted.into_iter().filter(|number| found.contains(number)).collect();
        place.remove(left).await;
    }

    /// Validations that waited are taken up again, if there still are any.
    fn settle_validations(&self) {
        if self.options.validation.is_some() {
            return;
        }
        let pending = self.ledger.lock().in_state(CheckpointState::Validating);
        for number in pending {
            let why = "it was not validated: the run goes on without a validation";
            self.change(number, CheckpointState::ValidationFailed, Some(why.to_owned()));
        }
    }

    /// The attempts and numbers that bytes are on their way to, or lie at.
    pub(super) fn what_stays(&self) -> (BTreeSet<u32>, BTreeSet<u64>) {
        let ledger = self.ledger.lock();
        let (mut attempts, mut stay) = (ledger.open_attempts(), ledger.open_numbers());
        stay.extend(ledger.usable());
        stay.extend(ledger.in_state(CheckpointState::Corrupt));
        for (number, flight) in self.flights.lock().iter() {
            attempts.insert(flight.attempt());
            stay.insert(*number);
        }
        (attempts, stay)
    }

    /// Looks whether a checkpoint is whole: its sizes, and if it is on this node, all of its bytes.
    pub(super) async fn check(&self, place: &Place, number: u64) -> Result<Looked, String> {
        let manifest = match place.look(number).await? {
            Looked::Whole(manifest) => manifest,
            bad => return Ok(bad),
        };
        if manifest.number != number || manifest.run_id != self.run.id {
            let whose =
                format!("its manifest is that of checkpoint {} of run {}", manifest.number, manifest.run_id);
            return Ok(Looked::Broken(vec![whose]));
        }
        match place.directory(number) {
            Some(dir) => super::storage::check_bytes(&dir, manifest, &self.copiers, &self.given_up).await,
            None => Ok(Looked::Whole(manifest)),
        }
    }

    /// Notes that a checkpoint is broken or gone, and says so in a sentence.
    pub(super) fn mark(&self, number: u64, looked: &Looked) -> Option<String> {
        let (state, why) = match looked {
            Looked::Whole(_) => return None,
            Looked::Missing(why) => (CheckpointState::Missing, why.clone()),
            Looked::Broken(wrong) => {
                let more = wrong.len().saturating_sub(1);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                (CheckpointState::Corrupt, format!("{}{more}", wrong.first().map_or("", String::as_str)))
            }
        };
        let Checkpoint { record, .. } = self.change(number, state, Some(why.clone()))?;
        let word = state.as_str().to_lowercase();
        let sentence = format!("checkpoint {number} of step {} is {word}: {why}", record.step);
        warn!("{sentence}");
        Some(sentence)
    }
}
