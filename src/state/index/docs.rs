//! Documents at hand. Those of live runs always are; of ended ones those that were made or looked at last, up to a number
//! of bytes, as all others lie on disk: so neither memory nor the start grow with what nobody looks at.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::{RunIndex, Slot};
use crate::{base::RunId, model::view::Document};

/// Bytes of documents of ended runs that are kept.
const KEPT: usize = 64 << 20;

/// A run as a list shows it.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    /// JSON; its workers come last.
    pub(crate) json: Bytes,
    /// Where in it the workers begin.
    pub(crate) workers_at: usize,
}

impl From<Document> for Doc {
    fn from(Document { json, workers_at }: Document) -> Self {
        Self { json: json.into(), workers_at }
    }
}

/// Which documents of ended runs are kept, in the order in which they came. One that is looked at again and again goes
/// like any other, and is back at the next look: that costs less than knowing.
#[derive(Debug, Default)]
pub(super) struct Kept {
    slots: VecDeque<Slot>,
    bytes: usize,
    /// How many documents were ever let go for want of room.
    gone: u64,
}

impl Kept {
    pub(super) fn let_go(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

impl RunIndex {
    /// The run as it is listed, JSON, if that is at hand.
    pub(crate) fn json(&self, run: &RunId) -> Option<Bytes> {
        self.get(run)?.doc.as_ref().map(|doc| doc.json.clone())
    }

    /// A mark of time for [`Self::keep`].
    pub(crate) fn mark(&self) -> u64 {
        self.kept.gone
    }

    /// Keeps documents that were read after `mark`, as far as none are at hand. If some were let go since, theirs may be
    /// among them and have changed before: then nothing is kept.
    pub(crate) fn keep(&mut self, docs: &HashMap<RunId, Doc>, mark: u64) {
        if self.kept.gone == mark {
            for (run, doc) in docs {
                self.supply(run, || doc.clone());
            }
        }
    }

    /// Has a run's document at hand if there is none.
    pub(crate) fn supply<D: Into<Doc>>(&mut self, run: &RunId, make: impl FnOnce() -> D) {
        if let Some(&slot) = self.by_id.get(run)
            && self.row(slot).is_some_and(|row| row.entry.doc.is_none())
        {
            self.hold(slot, make().into());
        }
    }

    pub(super) fn hold(&mut self, slot: Slot, doc: Doc) {
        let Some(Some(row)) = self.rows.get_mut(slot) else { return };
        let bytes = if row.entry.is_live() { 0 } else { doc.json.len() };
        row.entry.doc = Some(doc);
        self.kept.let_go(row.kept);
        self.kept.bytes += bytes;
        if row.kept == 0 && bytes > 0 {
            self.kept.slots.push_back(slot);
        }
        row.kept = bytes;
        while self.kept.bytes > KEPT
            && let Some(slot) = self.kept.slots.pop_front()
        {
            // Slots of runs that are gone or live again are left over in the queue.
            if let Some(Some(row)) = self.rows.get_mut(slot)
                && row.kept > 0
            {
                row.entry.doc = None;
                self.kept.let_go(std::mem::take(&mut row.kept));
                self.kept.gone += 1;
            }
        }
        let rows = &self.rows;
        if self.kept.slots.len() > 2 * rows.len() {
            let kept = |slot: &Slot| rows.get(*slot).and_then(Option::as_ref).is_some_and(|row| row.kept > 0);
            self.kept.slots.retain(kept);
        }
    }
}
