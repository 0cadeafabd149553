//! One page of the list: filter and order come before the limit, and the total is of all that fits.
//!
//! What can be read off an order that is kept (start, name, duration, one status, one group) costs the page; anything
//! else costs the smallest set of runs that holds all that fit.

use std::{cmp::Reverse, ops::Bound};

use super::{
    By, Counts, Entry, Facet, PageToken, Row, RunIndex, Slot, Sort, SortKey,
    by_start::{ALL, ByStart},
    groups::GroupNo,
    order::{Start, Value, bad_token},
    place,
};
use crate::{
    base::{Invalid, Timestamp, limits},
    model::RunStatus,
    state::live::LiveMap,
};

/// What is asked of the list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Only these statuses; all if empty.
    pub statuses: Vec<RunStatus>,
    /// Only runs whose name, id, job id or tags hold this, whatever the case.
    pub text: Option<String>,
    /// Only runs that are in all of these.
    pub groups: Vec<Facet>,
    /// Only runs that started at this time or later.
    pub started_after: Option<Timestamp>,
    /// Only runs that started before this time.
    pub started_before: Option<Timestamp>,
    /// The runs themselves, or those in the trash.
    pub shelf: Shelf,
    /// In which order.
    pub sort: Sort,
    /// How many.
    pub page_size: u32,
    /// Where the page before ended.
    pub page_token: Option<PageToken>,
}

/// Where to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shelf {
    /// The runs.
    #[default]
    Runs,
    /// Those in the trash.
    Trash,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            statuses: Vec::new(),
            text: None,
            groups: Vec::new(),
            started_after: None,
            started_before: None,
            shelf: Shelf::Runs,
            sort: Sort::default(),
            page_size: limits::DEFAULT_PAGE_SIZE,
            page_token: None,
        }
    }
}

/// A page of the list.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) entries: Vec<&'a Entry>,
    pub(crate) total: usize,
    pub(crate) next: Option<PageToken>,
    /// Runs of each status that fit all but the status.
    pub(crate) counts: Counts,
}

/// A run with its place in the order that was asked for.
pub(super) type Placed<'a> = (Option<Value>, &'a Start, Slot);

impl RunIndex {
    /// One page.
    ///
    /// # Errors
    /// When the token is of another order.
    pub(crate) fn page(&self, query: &ListQuery, live: &LiveMap) -> Result<Page<'_>, Invalid> {
        let after = query.page_token.as_ref();
        if after.is_some_and(|token| token.sort != query.sort) {
            return Err(bad_token());
        }
        let limit = usize::try_from(query.page_size).unwrap_or(1).max(1);
        let (counts, mut placed) = match self.kept_order(query) {
            Some((counts, order)) => (counts, order.take(limit + 1).collect()),
            None => {
                let (counts, slots) = self.gather(query);
                (counts, self.order(slots, query, live, limit + 1))
            }
        };
        let total = RunStatus::ALL.iter().zip(counts).filter(|(s, _)| query.wants(**s)).map(|(_, n)| n).sum();
        let more = placed.len() > limit;
        placed.truncate(limit);
        let next = placed.last().filter(|_| more).map(|(value, start, _)| PageToken {
            sort: query.sort.clone(),
            value: value.clone(),
            start: (*start).clone(),
        });
        let entries = placed.iter().filter_map(|(_, _, slot)| self.row(*slot)).map(|row| &row.entry);
        Ok(Page { entries: entries.collect(), total, next, counts })
    }

    /// The last value of a metric of a run that has one.
    pub(crate) fn value(&self, entry: &Entry, key: &str, live: &LiveMap) -> Option<f64> {
        if entry.is_live() {
            return live.last_value(entry.id(), key);
        }
        entry.last_value(*self.metric_keys.get(key)?)
    }

    /// The metrics of a run that have a last value at hand.
    pub(crate) fn keys(&self, entry: &Entry, live: &LiveMap) -> Vec<String> {
        if entry.is_live() {
            let values = live.get(entry.id()).map(|l| l.progress.last_values()).unwrap_or_default();
            return values.into_iter().map(|(key, _)| key).collect();
        }
        let has = |number: &u32| entry.last_value(*number).is_some();
        self.metric_keys.iter().filter(|(_, number)| has(number)).map(|(key, _)| key.to_string()).collect()
    }

    /// The page read off an order that is kept, if there is one for this question.
    fn kept_order<'a>(
        &'a self,
        query: &'a ListQuery,
    ) -> Option<(Counts, Box<dyn Iterator<Item = Placed<'a>> + 'a>)> {
        if query.text().is_some() || query.shelf != Shelf::Runs {
            return None;
        }
        let by_start_only = query.sort.key == SortKey::StartTime;
        let (newest, oldest) = query.stretch();
        let within = |runs: &ByStart| runs.count(newest.as_ref(), oldest.as_ref());
        let (counts, all) = match query.groups.as_slice() {
            [] if by_start_only => {
                (std::array::from_fn(|i| self.by_status.get(i).map_or(0, within)), &self.all)
            }
            _ if !query.is_timeless() => return None,
            [] => (self.counts(), &self.all),
            [one] if by_start_only => {
                let group = self.groups.get(self.groups.number(one)?)?;
                (group.counts, &group.runs)
            }
            _ => return None,
        };
        let backwards = query.sort.is_backwards();
        let token = query.page_token.as_ref();
        let after = token.map(|token| &token.start);
        let wanted = move |slot: Slot| self.row(slot).is_some_and(|row| query.wants(row.keys.status));
        let rare = self.rare(query, counts);
        let order: Box<dyn Iterator<Item = Placed<'a>>> = match &query.sort.key {
            SortKey::StartTime => {
                // One status has an order of its own, so that a rare status is found at once among many runs.
                let source = match (query.statuses.as_slice(), query.groups.is_empty()) {
                    ([only], true) => self.by_status.get(place(*only))?,
                    _ if rare => return None,
                    _ => all,
                };
                let placed = |(start, slot): (&'a Start, Slot)| (Some(Value::Start), start, slot);
                let checked = query.statuses.len() != 1 || !query.groups.is_empty();
                let runs = source.walk((newest.as_ref(), oldest.as_ref()), after, backwards).map(placed);
                Box::new(runs.filter(move |(_, _, slot)| !checked || wanted(*slot)))
            }
            _ if rare => return None,
            SortKey::Name => {
                let after = token.and_then(|t| match &t.value {
                    Some(Value::Name(name)) => Some((name.clone(), t.start.clone())),
                    _ => None,
                });
                let runs = by_value(&self.by_name, after, backwards, Value::Name);
                Box::new(runs.filter(move |(_, _, slot)| wanted(*slot)))
            }
            SortKey::Duration => {
                let after = token.and_then(|t| match &t.value {
                    Some(Value::Duration(ms)) => Some((*ms, t.start.clone())),
                    _ => None,
                });
                let among_the_rest = token.is_some_and(|t| t.value.is_none());
                let ended = by_value(&self.by_duration, after, backwards, Value::Duration);
                let live = self.by_status.get(place(RunStatus::Started))?;
                let after = token.filter(|_| among_the_rest).map(|t| &t.start);
                let rest = live.walk(ALL, after, false);
                let rest = rest.map(|(start, slot)| (None, start, slot));
                Box::new(
                    ended
                        .filter(move |_| !among_the_rest)
                        .chain(rest)
                        .filter(move |(_, _, slot)| wanted(*slot)),
                )
            }
            SortKey::Status => {
                let mut statuses: Vec<RunStatus> =
                    RunStatus::ALL.iter().copied().filter(|s| query.wants(*s)).collect();
                if backwards {
                    statuses.reverse();
                }
                let reached = token.and_then(|t| t.value.clone());
                Box::new(statuses.into_iter().flat_map(move |status| {
                    let value = Value::of_status(status);
                    let source = self.by_status.get(place(status));
                    let (skip, from) = match &reached {
                        None => (false, None),
                        Some(at) if *at == value => (false, after),
                        Some(at) => ((*at > value) != backwards, None),
                    };
                    let runs =
                        source.filter(|_| !skip).into_iter().flat_map(move |s| s.walk(ALL, from, backwards));
                    runs.map(move |(start, slot)| (Some(value.clone()), start, slot))
                }))
            }
            SortKey::Experiment
            | SortKey::Attempts
            | SortKey::Failures
            | SortKey::Workers
            | SortKey::Step
            | SortKey::Job
            | SortKey::Id
            | SortKey::Metric(_)
            | SortKey::Setting(_) => return None,
        };
        Some((counts, order))
    }

    /// Whether so few runs have the statuses asked for that passing over all the others would cost more than sorting
    /// these few.
    fn rare(&self, query: &ListQuery, counts: Counts) -> bool {
        let wanted: usize =
            RunStatus::ALL.iter().zip(counts).filter(|(s, _)| query.wants(**s)).map(|(_, n)| n).sum();
        !query.statuses.is_empty() && wanted < counts.iter().sum::<usize>() / 8
    }

    /// All runs that fit, and how many of each status fit but for the status.
    fn gather(&self, query: &ListQuery) -> (Counts, Vec<Slot>) {
        if query.only_statuses() {
            let wanted = RunStatus::ALL.iter().filter(|status| query.wants(**status));
            let runs =
                wanted.filter_map(|status| self.by_status.get(place(*status))).flat_map(ByStart::slots);
            return (self.counts(), runs.collect());
        }
        let mut slots = self.gather_all(query);
        let mut counts = Counts::default();
        for row in slots.iter().filter_map(|slot| self.row(*slot)) {
            if let Some(n) = counts.get_mut(place(row.keys.status)) {
                *n += 1;
            }
        }
        slots.retain(|slot| self.row(*slot).is_some_and(|row| query.wants(row.keys.status)));
        (counts, slots)
    }

    /// All runs that fit everything but the status, from the smallest set that holds them.
    fn gather_all(&self, query: &ListQuery) -> Vec<Slot> {
        let groups = query.groups.iter().map(|group| self.groups.number(group));
        let Some(groups) = groups.collect::<Option<Vec<GroupNo>>>() else { return Vec::new() };
        let fits = |slot: &Slot| self.row(*slot).is_some_and(|row| query.fits(row, &groups));
        if let Some(text) = query.text() {
            let mut found = self.texts.find(&text);
            found.retain(fits);
            return found;
        }
        let mut source = if query.shelf == Shelf::Trash { &self.trash } else { &self.all };
        let groups = groups.iter().filter(|_| query.shelf == Shelf::Runs);
        for group in groups.filter_map(|group| self.groups.get(*group)) {
            if group.runs.len() < source.len() {
                source = &group.runs;
            }
        }
        let stretch = query.stretch();
        source.range(stretch.0.as_ref(), stretch.1.as_ref()).map(|(_, slot)| slot).filter(fits).collect()
    }
}

impl ListQuery {
    /// Whether it asks for nothing but groups and statuses.
    fn only_groups(&self) -> bool {
        self.text().is_none() && self.is_timeless() && self.shelf == Shelf::Runs
    }

    /// The stretch of all runs that started within the times asked for. Newest first: what started before a time comes
    /// after it.
    fn stretch(&self) -> (Bound<Start>, Bound<Start>) {
        // The first place of all that started earlier than `at`.
        let edge = |at: Timestamp| {
            let earlier = Timestamp::from_ms(at.as_ms().saturating_sub(1));
            (Reverse(earlier), Reverse(crate::base::RunId::last()))
        };
        (
            self.started_before.map_or(Bound::Unbounded, |at| Bound::Included(edge(at))),
            self.started_after.map_or(Bound::Unbounded, |at| Bound::Excluded(edge(at))),
        )
    }

    fn is_timeless(&self) -> bool {
        self.started_after.is_none() && self.started_before.is_none()
    }

    fn only_statuses(&self) -> bool {
        self.groups.is_empty() && self.only_groups()
    }

    fn wants(&self, status: RunStatus) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    /// The text to look for, in lower case.
    fn text(&self) -> Option<String> {
        self.text.as_deref().filter(|text| !text.is_empty()).map(str::to_lowercase)
    }

    /// Whether a run fits everything but the text and the status.
    fn fits(&self, row: &Row, groups: &[GroupNo]) -> bool {
        let (Reverse(started), _) = &row.start;
        row.keys.trashed == (self.shelf == Shelf::Trash)
            && self.started_after.is_none_or(|at| *started >= at)
            && self.started_before.is_none_or(|at| *started < at)
            && groups.iter().all(|group| row.keys.groups.contains(group))
    }
}

/// Runs by a value after a place, one way or the other.
fn by_value<'a, K: Ord + Clone>(
    runs: &'a By<K>,
    after: Option<(K, Start)>,
    backwards: bool,
    value: impl Fn(K) -> Value + 'a,
) -> Box<dyn Iterator<Item = Placed<'a>> + 'a> {
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    let placed =
        move |((key, start), slot): (&'a (K, Start), &Slot)| (Some(value(key.clone())), start, *slot);
    if backwards {
        Box::new(runs.range((Bound::Unbounded, after)).rev().map(placed))
    } else {
        Box::new(runs.range((after, Bound::Unbounded)).map(placed))
    }
}
