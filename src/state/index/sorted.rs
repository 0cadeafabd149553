//! Runs in an order that is not kept: of all that fit those are found that come first. This costs a look at each of them,
//! and no memory for an order.

use std::{cmp::Ordering, sync::Arc};

use super::{
    Direction, Keys, Row, RunIndex, Slot, Sort, SortKey,
    order::{Start, Value},
    page::{ListQuery, Placed},
};
use crate::state::live::LiveMap;

impl RunIndex {
    /// The first `n` of these runs after the token.
    pub(super) fn order(
        &self,
        slots: Vec<Slot>,
        query: &ListQuery,
        live: &LiveMap,
        n: usize,
    ) -> Vec<Placed<'_>> {
        let sort = &query.sort;
        let compare = |a: &Placed<'_>, b: &Placed<'_>| sort.compare((&a.0, a.1), (&b.0, b.1));
        let is_after = |(value, start, _): &Placed<'_>| {
            let token = query.page_token.as_ref();
            token.is_none_or(|t| sort.compare((value, start), (&t.value, &t.start)) == Ordering::Greater)
        };
        let metric = sort.metric().and_then(|key| self.metric_keys.get(key)).copied();
        let setting = sort.setting().and_then(|key| self.settings.get(key));
        let placed = slots.into_iter().filter_map(|slot| {
            let row = self.row(slot)?;
            let value = match &sort.key {
                SortKey::Setting(_) => setting.and_then(|s| s.value(slot)).cloned(),
                _ => self.sort_value(row, sort, metric, live),
            };
            Some((value, &row.start, slot))
        });
        // Of many runs only some more than are wanted are at hand at any time.
        let mut first: Vec<Placed<'_>> = Vec::with_capacity(4 * n);
        for run in placed.filter(is_after) {
            if first.len() == 4 * n {
                first.select_nth_unstable_by(n, compare);
                first.truncate(n);
            }
            first.push(run);
        }
        first.sort_unstable_by(compare);
        first.truncate(n);
        first
    }

    /// What a run is ordered by, but for its settings; `metric` is the number of the metric, if any ended run has it.
    fn sort_value(&self, row: &Row, sort: &Sort, metric: Option<u32>, live: &LiveMap) -> Option<Value> {
        let Keys { status, name, duration_ms, groups, trashed: _ } = &row.keys;
        match &sort.key {
            SortKey::StartTime => Some(Value::Start),
            SortKey::Name => Some(Value::Name(name.clone())),
            SortKey::Duration => duration_ms.map(Value::Duration),
            SortKey::Status => Some(Value::of_status(*status)),
            SortKey::Experiment => self.groups.experiment(groups).map(|name| Value::Group(Arc::clone(name))),
            SortKey::Job => self.groups.job(groups).map(|name| Value::Group(Arc::clone(name))),
            SortKey::Id => Some(Value::Name(row.entry.id().as_str().into())),
            SortKey::Setting(_) => None,
            SortKey::Attempts => Some(Value::Count(row.tally.attempts)),
            SortKey::Failures => Some(Value::Count(row.tally.failures)),
            SortKey::Workers => Some(row.tally.workers).filter(|n| *n > 0).map(Value::Count),
            SortKey::Step if row.entry.is_live() => live.last_step(row.entry.id()).map(Value::Step),
            SortKey::Step => row.last_step.map(Value::Step),
            SortKey::Metric(key) if row.entry.is_live() => {
                live.last_value(row.entry.id(), key).and_then(Value::of_number)
            }
            SortKey::Metric(_) => metric.and_then(|n| row.entry.last_value(n)).and_then(Value::of_number),
        }
    }
}

impl Sort {
    /// Whether this order is the kept one backwards. By start the newest come first.
    pub(super) fn is_backwards(&self) -> bool {
        (self.direction == Direction::Descending) != (self.key == SortKey::StartTime)
    }

    fn compare(&self, a: (&Option<Value>, &Start), b: (&Option<Value>, &Start)) -> Ordering {
        match (a.0, b.0) {
            (None, None) => a.1.cmp(b.1),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(x), Some(y)) => {
                let order = x.cmp(y).then_with(|| a.1.cmp(b.1));
                if self.is_backwards() { order.reverse() } else { order }
            }
        }
    }
}
