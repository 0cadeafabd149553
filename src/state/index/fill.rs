//! The list at the start: every order made at once, which costs a fraction of putting one run after the other.

use super::{Row, RunIndex, Slot, place};
use crate::store::ListedRun;

impl RunIndex {
    /// Takes an ended run in at the start; it stands in no order until all are there and `ordered` is called.
    pub(crate) fn push(&mut self, run: ListedRun) {
        self.put_unlinked(run);
    }

    /// Makes every order.
    pub(crate) fn ordered(mut self) -> Self {
        let slots = self.rows.iter().enumerate().filter_map(|(slot, row)| Some((slot, row.as_ref()?)));
        let mut rows: Vec<(Slot, &Row)> = slots.collect();
        // All orders but those by another value are made of runs that stand in order already.
        rows.sort_unstable_by(|(_, a), (_, b)| a.start.cmp(&b.start));
        let (trashed, shown): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, row)| row.keys.trashed);
        let by_start = |(slot, row): &(Slot, &Row)| (row.start.clone(), *slot);
        self.trash = trashed.iter().map(by_start).collect();
        self.all = shown.iter().map(by_start).collect();
        self.by_status = std::array::from_fn(|i| {
            shown.iter().filter(|(_, row)| place(row.keys.status) == i).map(by_start).collect()
        });
        let name = |(slot, row): &(Slot, &Row)| ((row.keys.name.clone(), row.start.clone()), *slot);
        self.by_name = shown.iter().map(name).collect();
        let duration = |(slot, row): &(Slot, &Row)| Some(((row.keys.duration_ms?, row.start.clone()), *slot));
        self.by_duration = shown.iter().filter_map(duration).collect();
        let in_groups =
            shown.iter().map(|(slot, row)| (&*row.keys.groups, &row.start, *slot, place(row.keys.status)));
        self.groups.fill(in_groups);
        self
    }
}
