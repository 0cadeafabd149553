//! What the ledger keeps of checkpoints that are whole, or were.

use std::collections::{BTreeMap, BTreeSet};

use super::Ledger;
use crate::{
    base::limits,
    controller::checkpoints::Newest,
    model::{
        Checkpoint, CheckpointState, RecordCheckpoint,
        checkpoint::{Ranking, Retention},
        metrics::MetricValue,
    },
};

impl Ledger {
    /// Takes over what was written before; what is known of one already counts. The next number is at least `next`.
    pub(in super::super) fn take_over(&mut self, known: Vec<Checkpoint>, next: u64) {
        for checkpoint in known {
            self.next = self.next.max(checkpoint.number.saturating_add(1));
            self.known.entry(checkpoint.number).or_insert(checkpoint);
        }
        self.next = self.next.max(next);
    }

    /// The number that the next checkpoint gets.
    pub(in super::super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Whether this number is that of a checkpoint that is or was whole.
    pub(in super::super) fn knows(&self, number: u64) -> bool {
        self.known.contains_key(&number)
    }

    /// A checkpoint is whole: its manifest is written.
    pub(in super::super) fn committed(&mut self, number: u64, record: RecordCheckpoint) -> Checkpoint {
        self.open.remove(&number);
        let checkpoint = Checkpoint { number, record, pinned: self.pinned.contains(&number) };
        self.known.insert(number, checkpoint.clone());
        self.next = self.next.max(number.saturating_add(1));
        self.forget();
        checkpoint
    }

    /// Of those that are not there any more the oldest are forgotten.
    fn forget(&mut self) {
        let mut over = self.known.len().saturating_sub(limits::CHECKPOINTS);
        self.known.retain(|_, checkpoint| {
            let gone = matches!(checkpoint.record.state, CheckpointState::Missing | CheckpointState::Deleted);
            let goes = gone && over > 0;
            over -= usize::from(goes);
            !goes
        });
    }

    /// Where a checkpoint stands now, with a sentence about it; none if it is not known or does not go there.
    pub(in super::super) fn change(
        &mut self,
        number: u64,
        to: CheckpointState,
        detail: Option<String>,
    ) -> Option<Checkpoint> {
        let checkpoint = self.known.get_mut(&number)?;
        if checkpoint.record.state == to {
            return None;
        }
        checkpoint.record.state = checkpoint.record.state.to(to).ok()?;
        checkpoint.record.status_detail = detail;
        Some(checkpoint.clone())
    }

    /// Adds what was measured of a checkpoint to what was reported with it.
    pub(in super::super) fn measured(&mut self, number: u64, metrics: BTreeMap<String, f64>) {
        let Some(checkpoint) = self.known.get_mut(&number) else { return };
        for (key, value) in metrics {
            let known = &mut checkpoint.record.metrics;
            if known.contains_key(&key) || known.len() < limits::CHECKPOINT_METRICS {
                known.insert(key, MetricValue(value));
            }
        }
    }

    /// Those that people want kept, all of them. Tells whether that is news.
    pub(in super::super) fn set_pinned(&mut self, pinned: BTreeSet<u64>) -> bool {
        if self.pinned == pinned && self.known.values().all(|c| c.pinned == pinned.contains(&c.number)) {
            return false;
        }
        for checkpoint in self.known.values_mut() {
            checkpoint.pinned = pinned.contains(&checkpoint.number);
        }
        self.pinned = pinned;
        true
    }

    /// All of them, by number.
    pub(in super::super) fn all(&self) -> Vec<Checkpoint> {
        self.known.values().cloned().collect()
    }

    /// One of them.
    pub(in super::super) fn get(&self, number: u64) -> Option<&Checkpoint> {
        self.known.get(&number)
    }

    /// Those in this state, oldest first.
    pub(in super::super) fn in_state(&self, state: CheckpointState) -> Vec<u64> {
        self.known.values().filter(|c| c.record.state == state).map(|c| c.number).collect()
    }

    /// Those whose bytes are believed to be there, newest first.
    pub(in super::super) fn usable(&self) -> Vec<u64> {
        self.known.values().rev().filter(|c| c.record.state.is_usable()).map(|c| c.number).collect()
    }

    /// The newest usable one.
    pub(in super::super) fn newest(&self) -> Option<Newest> {
        let newest = self.known.values().rev().find(|c| c.record.state.is_usable())?;
        Some(Newest { number: newest.number, step: newest.record.step })
    }

    /// How they stand to each other.
    pub(in super::super) fn rank(&self, retention: &Retention) -> Ranking {
        retention.rank(self.known.values())
    }
}
