//! The list in memory: every run's ready-made JSON, in the orders that pages are asked for. A page is copied, not built.
//! Derived from the store; knows nothing of evidence or progress.

mod by_start;
mod docs;
mod fill;
mod groups;
mod order;
mod page;
mod settings;
mod sorted;
#[cfg(test)]
mod tests;
mod texts;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

pub(crate) use docs::Doc;
pub use groups::Facet;
pub use order::{Direction, PageToken, Sort, SortKey};
pub(crate) use page::Page;
pub use page::{ListQuery, Shelf};

use self::{
    by_start::ByStart,
    docs::Kept,
    groups::{GroupNo, Groups},
    order::Start,
    settings::Settings,
    texts::{Piece, Texts},
};
use crate::{
    base::RunId,
    model::{RunStatus, Tally, view::Document},
    store::ListedRun,
};

/// Whether a run stands in the orders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    Yes,
    No,
}

/// Where a run stands in the table of rows.
type Slot = usize;
/// Runs by a value, and by their start where the value is the same.
type By<K> = BTreeMap<(K, Start), Slot>;
/// How many runs there are of each status, in the order of [`RunStatus::ALL`].
pub(crate) type Counts = [usize; RunStatus::ALL.len()];

/// A run of the list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    id: RunId,
    status: RunStatus,
    /// The run as a list shows it; none if it has ended and that lies on disk only.
    pub(crate) doc: Option<Doc>,
    /// Last values of an ended run's metrics, by the number of the key.
    values: Arc<[(u32, f64)]>,
}

impl Entry {
    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    pub(crate) fn is_live(&self) -> bool {
        self.status == RunStatus::Started
    }

    /// The last value of the metric with this number, if it is an ended run's.
    fn last_value(&self, metric: u32) -> Option<f64> {
        let at = self.values.binary_search_by_key(&metric, |(number, _)| *number).ok()?;
        self.values.get(at).map(|(_, value)| *value)
    }
}

/// What decides where a run stands. As long as it stays the same, a change of the run is a change of its document.
#[derive(Debug, PartialEq, Eq)]
struct Keys {
    status: RunStatus,
    /// In lower case.
    name: Box<str>,
    duration_ms: Option<i64>,
    groups: Box<[GroupNo]>,
    trashed: bool,
}

#[derive(Debug)]
struct Row {
    entry: Entry,
    start: Start,
    keys: Keys,
    tally: Tally,
    /// Of an ended run.
    last_step: Option<i64>,
    piece: Piece,
    /// Bytes of its document that count as kept.
    kept: usize,
}

/// The list in memory.
#[derive(Debug, Default)]
pub(crate) struct RunIndex {
    rows: Vec<Option<Row>>,
    free: Vec<Slot>,
    by_id: HashMap<RunId, Slot>,
    all: ByStart,
    by_status: [ByStart; RunStatus::ALL.len()],
    by_name: By<Box<str>>,
    /// Ended runs only.
    by_duration: By<i64>,
    groups: Groups,
    trash: ByStart,
    texts: Texts,
    metric_keys: HashMap<Arc<str>, u32>,
    settings: Settings,
    kept: Kept,
}

/// An experiment, with its runs counted.
#[derive(Debug)]
pub(crate) struct ExperimentRuns {
    pub(crate) name: Arc<str>,
    pub(crate) counts: Counts,
    /// The newest of its runs.
    pub(crate) newest: Option<(RunId, crate::base::Timestamp)>,
}

impl RunIndex {
    pub(crate) fn get(&self, id: &RunId) -> Option<&Entry> {
        self.by_id.get(id).and_then(|slot| self.row(*slot)).map(|row| &row.entry)
    }

    /// How many runs there are of each status, without those in the trash.
    pub(crate) fn counts(&self) -> Counts {
        std::array::from_fn(|i| self.by_status.get(i).map_or(0, ByStart::len))
    }

    /// How many runs are in the trash.
    pub(crate) fn trashed(&self) -> usize {
        self.trash.len()
    }

    /// Experiments by name, after the one called `after`.
    pub(crate) fn experiments(&self, after: Option<&str>, limit: usize) -> Vec<ExperimentRuns> {
        let experiments = self.groups.experiments(after).map(|(name, of)| ExperimentRuns {
            name: Arc::clone(name),
            counts: of.counts,
            newest: of.runs.first().map(|(Reverse(at), Reverse(id))| (id.clone(), *at)),
        });
        experiments.take(limit).collect()
    }

    /// Puts a run in, in place of what stood there of it.
    pub(crate) fn put(&mut self, run: ListedRun, doc: Document) {
        let (slot, linked) = self.put_unlinked(run);
        if linked == Linked::No {
            self.link(slot);
        }
        self.hold(slot, doc.into());
    }

    /// Puts a run in, without its document; a new one is in no order yet.
    fn put_unlinked(&mut self, run: ListedRun) -> (Slot, Linked) {
        let texts = run.texts();
        let ListedRun {
            id,
            start_time,
            duration_ms,
            status,
            name,
            job_id,
            experiment,
            tags,
            trashed,
            tally,
            last,
        } = run;
        let groups = experiment.map(|name| Facet::Experiment(name.into()));
        let groups = groups.into_iter().chain(job_id.map(|job| Facet::Job(job.into())));
        let tags = tags.into_iter().map(|(key, value)| Facet::Tag(format!("{key}:{value}").into()));
        let groups = groups.chain(tags).map(|group| self.groups.join(group)).collect();
        let keys = Keys { status, name: name.to_lowercase().into(), duration_ms, groups, trashed };
        let last = last.map(|last| (self.numbered(last.values), last.step));
        if let Some(&slot) = self.by_id.get(&id)
            && let Some(Some(row)) = self.rows.get_mut(slot)
        {
            row.tally = tally;
            self.settings.forget(slot);
            if let Some(last) = last {
                (row.entry.values, row.last_step) = last;
            }
            let piece = row.piece;
            if row.keys == keys {
                self.groups.leave(&keys.groups);
            } else {
                self.unlink(slot);
                if let Some(Some(row)) = self.rows.get_mut(slot) {
                    row.entry.status = status;
                    self.groups.leave(&std::mem::replace(&mut row.keys, keys).groups);
                }
                self.link(slot);
            }
            if !self.texts.is(piece, &texts) {
                self.texts.remove(piece);
                let piece = self.texts.add(&texts, slot);
                if let Some(Some(row)) = self.rows.get_mut(slot) {
                    row.piece = piece;
                }
                self.tidy_texts();
            }
            return (slot, Linked::Yes);
        }
        let slot = self.free.pop().unwrap_or(self.rows.len());
        let (values, last_step) = last.unwrap_or_default();
        let row = Row {
            start: (Reverse(start_time), Reverse(id.clone())),
            entry: Entry { id: id.clone(), status, doc: None, values },
            keys,
            tally,
            last_step,
            piece: self.texts.add(&texts, slot),
            kept: 0,
        };
        match self.rows.get_mut(slot) {
            Some(free) => *free = Some(row),
            None => self.rows.push(Some(row)),
        }
        self.by_id.insert(id, slot);
        (slot, Linked::No)
    }

    /// Takes a run out.
    pub(crate) fn remove(&mut self, id: &RunId) {
        let Some(slot) = self.by_id.remove(id) else { return };
        self.unlink(slot);
        if let Some(row) = self.rows.get_mut(slot).and_then(Option::take) {
            self.kept.let_go(row.kept);
            self.groups.leave(&row.keys.groups);
            self.texts.remove(row.piece);
            self.settings.forget(slot);
            self.free.push(slot);
            self.tidy_texts();
        }
    }

    fn row(&self, slot: Slot) -> Option<&Row> {
        self.rows.get(slot).and_then(Option::as_ref)
    }

    fn tidy_texts(&mut self) {
        let rows = &mut self.rows;
        self.texts.tidy(|slot, piece| {
            if let Some(Some(row)) = rows.get_mut(slot) {
                row.piece = piece;
            }
        });
    }

    /// Values by the numbers of their keys, in the order of the numbers.
    fn numbered(&mut self, values: Vec<(String, f64)>) -> Arc<[(u32, f64)]> {
        let mut numbered: Vec<(u32, f64)> = values
            .into_iter()
            .filter_map(|(key, value)| {
                let next = u32::try_from(self.metric_keys.len()).ok()?;
                Some((*self.metric_keys.entry(key.into()).or_insert(next), value))
            })
            .collect();
        numbered.sort_unstable_by_key(|(key, _)| *key);
        numbered.into()
    }

    fn link(&mut self, slot: Slot) {
        let Some(Row { start, keys, .. }) = self.rows.get(slot).and_then(Option::as_ref) else { return };
        if keys.trashed {
            self.trash.insert(start.clone(), slot);
            return;
        }
        self.all.insert(start.clone(), slot);
        self.by_name.insert((keys.name.clone(), start.clone()), slot);
        if let Some(ms) = keys.duration_ms {
            self.by_duration.insert((ms, start.clone()), slot);
        }
        let status = place(keys.status);
        if let Some(of_status) = self.by_status.get_mut(status) {
            of_status.insert(start.clone(), slot);
        }
        self.groups.link(&keys.groups, start, slot, status);
    }

    fn unlink(&mut self, slot: Slot) {
        let Some(Row { start, keys, .. }) = self.rows.get(slot).and_then(Option::as_ref) else { return };
        if keys.trashed {
            self.trash.remove(start);
            return;
        }
        self.all.remove(start);
        self.by_name.remove(&(keys.name.clone(), start.clone()));
        if let Some(ms) = keys.duration_ms {
            self.by_duration.remove(&(ms, start.clone()));
        }
        let status = place(keys.status);
        if let Some(of_status) = self.by_status.get_mut(status) {
            of_status.remove(start);
        }
        self.groups.unlink(&keys.groups, start, status);
    }
}

/// The place of a status in [`RunStatus::ALL`].
fn place(status: RunStatus) -> usize {
    RunStatus::ALL.iter().position(|s| *s == status).unwrap_or(0)
}
