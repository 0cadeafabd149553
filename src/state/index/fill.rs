//! The list at the start: every order made at once, which costs a fraction of putting one run after the other.

use std::{collections::HashMap, sync::Arc};

use super::{Counts, Facet, FacetRuns, Row, RunIndex, Slot, Start, place};
use crate::store::ListedRun;

impl RunIndex {
    /// The list of these runs, which all have ended.
    pub(crate) fn of_ended(runs: Vec<ListedRun>) -> Self {
        let mut index = Self::default();
        for run in runs {
            let (slot, _) = index.put_unlinked(run);
            // Known from now on, so that its text is there once, however many runs it has.
            for group in index.row(slot).map(|row| row.keys.groups.clone()).unwrap_or_default() {
                index.groups.entry(group).or_default();
            }
        }
        index.ordered()
    }

    fn ordered(self) -> Self {
        let index = self;
        let slots = index.rows.iter().enumerate().filter_map(|(slot, row)| Some((slot, row.as_ref()?)));
        let mut rows: Vec<(Slot, &Row)> = slots.collect();
        // All orders but those by another value are made of runs that stand in order already.
        rows.sort_unstable_by(|(_, a), (_, b)| a.start.cmp(&b.start));
        let (trashed, shown): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, row)| row.keys.trashed);
        let by_start = |(slot, row): &(Slot, &Row)| (row.start.clone(), *slot);
        let trash = trashed.iter().map(by_start).collect();
        let all = shown.iter().map(by_start).collect();
        let by_status = std::array::from_fn(|i| {
            shown.iter().filter(|(_, row)| place(row.keys.status) == i).map(by_start).collect()
        });
        let by_name =
            shown.iter().map(|(slot, row)| ((row.keys.name.clone(), row.start.clone()), *slot)).collect();
        let duration = |(slot, row): &(Slot, &Row)| Some(((row.keys.duration_ms?, row.start.clone()), *slot));
        let by_duration = shown.iter().filter_map(duration).collect();
        let mut members: HashMap<&Facet, (Vec<(Start, Slot)>, Counts)> = HashMap::new();
        for run @ (_, row) in &shown {
            for group in &row.keys.groups {
                let (runs, counts) = members.entry(group).or_default();
                runs.push(by_start(run));
                if let Some(n) = counts.get_mut(place(row.keys.status)) {
                    *n += 1;
                }
            }
        }
        let experiment = |group: &&Facet| match group {
            Facet::Experiment(name) => Some(Arc::clone(name)),
            Facet::Job(_) | Facet::Tag(_) => None,
        };
        let experiments = members.keys().filter_map(experiment).collect();
        let runs = |(group, (runs, counts)): (&Facet, (Vec<_>, _))| {
            (group.clone(), FacetRuns { runs: runs.into_iter().collect(), counts })
        };
        let groups = members.into_iter().map(runs).collect();
        Self { all, trash, by_status, by_name, by_duration, groups, experiments, ..index }
    }
}
