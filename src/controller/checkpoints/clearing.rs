//! Clearing up: the ledger's snapshot, what somebody removed by hand, and what retention lets go.

use tracing::{info, warn};

use super::{
    CheckpointEvent,
    desk::Inner,
    local::Looked,
    written::{SNAPSHOT, Snapshot, to_json},
};
use crate::{base::number::bytes_in_words, model::CheckpointState};

impl Inner {
    /// Writes the snapshot, and removes what retention lets go. What stays is on the disk before anything else goes, and
    /// the snapshot says so before it does.
    pub(super) async fn tidy(&self) -> Result<(), String> {
        let Ok(place) = self.place() else { return Ok(()) };
        self.note_missing().await?;
        let before = self.goes();
        if before.is_empty() {
            let _house = self.house.lock().await;
            return self.write_snapshot().await;
        }
        place.sync().await?;
        let _house = self.house.lock().await;
        // One that came meanwhile is not on the disk yet, and takes the place of none.
        let now = self.goes();
        let goes: Vec<u64> = before.into_iter().filter(|number| now.contains(number)).collect();
        let mut changed = Vec::new();
        for number in &goes {
            let detail = "it is not among those that are kept".to_owned();
            changed.extend(self.ledger.lock().change(*number, CheckpointState::Deleted, Some(detail)));
        }
        self.write_snapshot().await?;
        place.remove(goes).await;
        for checkpoint in changed {
            let (number, size) = (checkpoint.number, bytes_in_words(checkpoint.record.size_bytes));
            info!("checkpoint {number} of step {} is deleted ({size})", checkpoint.record.step);
            self.tell(CheckpointEvent::Changed(checkpoint));
        }
        Ok(())
    }

    fn goes(&self) -> Vec<u64> {
        self.ledger.lock().rank(&self.options.retention).goes().collect()
    }

    /// Notes checkpoints that somebody removed.
    async fn note_missing(&self) -> Result<(), String> {
        let place = self.place()?;
        let known = self.ledger.lock().usable();
        let present = place.present(known.clone()).await?;
        for number in known.into_iter().filter(|number| !present.contains(number)) {
            self.mark(number, &Looked::Missing("somebody removed it".to_owned()));
        }
        Ok(())
    }

    async fn write_snapshot(&self) -> Result<(), String> {
        let place = self.place()?;
        let snapshot = {
            let ledger = self.ledger.lock();
            Snapshot::new(self.run.id.clone(), ledger.next_number(), self.clock.now(), ledger.all())
        };
        place.write(SNAPSHOT, to_json(&snapshot)).await?;
        self.note_next().await
    }

    /// Clears away what an attempt left when nothing of it is under way any more.
    pub(super) async fn sweep_after(&self) {
        let _house = self.house.lock().await;
        let Ok(place) = self.place() else { return };
        // An object store was cleared flight by flight.
        if place.directory(0).is_none() {
            return;
        }
        let (attempts, stay) = self.what_stays();
        if let Err(e) = place.sweep(attempts, stay).await {
            warn!("the staging area cannot be cleared away: {e}");
        }
    }
}
