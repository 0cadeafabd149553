//! The list: every run's ready-made JSON in memory, in the order of the list, by status. A page is copied, not built.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    base::{Invalid, RunId, Timestamp, limits},
    model::RunStatus,
    store::ListedRun,
};

/// What is asked of the list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Only these statuses; all if empty.
    pub statuses: Vec<RunStatus>,
    /// Only runs whose name, id, job id or tags hold this, whatever the case.
    pub text: Option<String>,
    /// How many.
    pub page_size: u32,
    /// Where the page before ended.
    pub page_token: Option<PageToken>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { statuses: Vec::new(), text: None, page_size: limits::DEFAULT_PAGE_SIZE, page_token: None }
    }
}

/// The place of a run in the list: newest start first, of equal starts the greater id (made later) first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageToken(Reverse<Timestamp>, Reverse<RunId>);

impl PageToken {
    /// Reads a token that an earlier answer gave.
    ///
    /// # Errors
    /// When it is not one.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad =
            || Invalid::malformed("page_token", "take the next_page_token of the answer before, unchanged");
        let (start, id) = text.split_once('.').ok_or_else(bad)?;
        let start = start.parse().map_err(|_| bad())?;
        Ok(Self(Reverse(Timestamp::from_ms(start)), Reverse(RunId::parse(id).map_err(|_| bad())?)))
    }
}

impl std::fmt::Display for PageToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.0.as_ms(), self.1.0)
    }
}

/// A run of the list.
#[derive(Debug)]
pub(crate) struct Entry {
    place: PageToken,
    status: RunStatus,
    texts: Box<str>,
    /// The run as a list shows it, JSON.
    pub(crate) doc: Bytes,
}

impl Entry {
    pub(crate) fn id(&self) -> &RunId {
        &self.place.1.0
    }

    pub(crate) fn is_live(&self) -> bool {
        self.status == RunStatus::Started
    }
}

/// A page of the list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) total: usize,
    pub(crate) next: Option<PageToken>,
    /// Runs of each status, in the order of [`RunStatus::ALL`], that fit the text.
    pub(crate) counts: Vec<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct RunIndex {
    by_id: HashMap<RunId, Arc<Entry>>,
    all: BTreeMap<PageToken, Arc<Entry>>,
    by_status: HashMap<RunStatus, BTreeMap<PageToken, Arc<Entry>>>,
}

impl RunIndex {
    pub(crate) fn new(runs: Vec<ListedRun>) -> Self {
        let mut index = Self::default();
        for run in runs {
            index.put(run);
        }
        index
    }

    /// Puts a run in, in place of what stood there of it.
    pub(crate) fn put(&mut self, run: ListedRun) {
        let ListedRun { id, start_time, status, texts, doc } = run;
        if let Some(old) = self.by_id.get(&id) {
            self.all.remove(&old.place);
            if let Some(of_status) = self.by_status.get_mut(&old.status) {
                of_status.remove(&old.place);
            }
        }
        let place = PageToken(Reverse(start_time), Reverse(id.clone()));
        let entry = Arc::new(Entry {
            place: place.clone(),
            status,
            texts: texts.into_boxed_str(),
            doc: Bytes::from(doc),
        });
        self.by_id.insert(id, Arc::clone(&entry));
        self.all.insert(place.clone(), Arc::clone(&entry));
        self.by_status.entry(status).or_default().insert(place, entry);
    }

    pub(crate) fn get(&self, id: &RunId) -> Option<&Arc<Entry>> {
        self.by_id.get(id)
    }

    /// One page. Filter and order come before the limit.
    pub(crate) fn page(&self, query: &ListQuery) -> Page {
        let needle = query.text.as_deref().map(str::to_lowercase).filter(|t| !t.is_empty());
        // A search looks at every run once, for the page and for the counts.
        let found: Option<Vec<&Arc<Entry>>> = needle.map(|text| {
            let finder = memchr::memmem::Finder::new(&text);
            self.all.values().filter(|e| finder.find(e.texts.as_bytes()).is_some()).collect()
        });
        let of_status = |status: &RunStatus| self.by_status.get(status);
        let counts: Vec<usize> = RunStatus::ALL
            .iter()
            .map(|status| match &found {
                Some(found) => found.iter().filter(|e| e.status == *status).count(),
                None => of_status(status).map_or(0, BTreeMap::len),
            })
            .collect();
        let wanted = |e: &&Arc<Entry>| query.statuses.is_empty() || query.statuses.contains(&e.status);
        let total = match query.statuses.as_slice() {
            [] => counts.iter().sum(),
            some => {
                RunStatus::ALL.iter().zip(&counts).filter(|(s, _)| some.contains(s)).map(|(_, n)| n).sum()
            }
        };
        let limit = usize::try_from(query.page_size).unwrap_or(1).max(1);
        let after = query.page_token.as_ref();
        let mut entries: Vec<Arc<Entry>> = match found {
            Some(found) => found
                .into_iter()
                .filter(|e| after.is_none_or(|token| e.place > *token))
                .filter(wanted)
                .take(limit + 1)
                .cloned()
                .collect(),
            None => {
                let empty = BTreeMap::new();
                // One status has an order of its own, so that a rare status is found at once among many runs.
                let source = match query.statuses.as_slice() {
                    [only] => of_status(only).unwrap_or(&empty),
                    _ => &self.all,
                };
                let from = after.cloned().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
                let range = source.range((from, std::ops::Bound::Unbounded));
                range.map(|(_, entry)| entry).filter(wanted).take(limit + 1).cloned().collect()
            }
        };
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|e| e.place.clone());
        Page { entries, total, next, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(i: usize, start: i64, status: RunStatus) -> ListedRun {
        let id = RunId::parse(&format!("run-{i:05}")).unwrap();
        ListedRun {
            texts: ListedRun::texts(&id, &format!("Name {i}"), None, &BTreeMap::new()),
            id,
            start_time: Timestamp::from_ms(start),
            status,
            doc: "{}".into(),
        }
    }

    fn ids(page: &Page) -> Vec<String> {
        page.entries.iter().map(|e| e.id().to_string()).collect()
    }

    #[test]
    fn the_one_live_run_is_found_behind_12_000_newer_finished_ones() {
        let mut runs = vec![run(0, 1, RunStatus::Started)];
        runs.extend((1..=12_000).map(|i| run(i, 2, RunStatus::Finished)));
        let index = RunIndex::new(runs);
        let page = index.page(&ListQuery {
            statuses: vec![RunStatus::Started],
            page_size: 10,
            ..ListQuery::default()
        });
        assert_eq!((ids(&page), page.total, page.next), (vec!["run-00000".to_owned()], 1, None));
    }

    #[test]
    fn paging_through_equal_start_times_meets_each_run_once_while_runs_are_added() {
        let mut index = RunIndex::new((0..5000).map(|i| run(i, 7, RunStatus::Finished)).collect());
        let mut seen = Vec::new();
        let mut query = ListQuery { page_size: 100, ..ListQuery::default() };
        loop {
            let page = index.page(&query);
            seen.extend(ids(&page));
            for _ in 0..10 {
                index.put(run(10_000 + seen.len() * 10 + index.by_id.len(), 8, RunStatus::Started));
            }
            match page.next {
                Some(next) => query.page_token = Some(PageToken::parse(&next.to_string()).unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, (0..5000).rev().map(|i| format!("run-{i:05}")).collect::<Vec<_>>());
    }

    #[test]
    fn a_search_ignores_case_and_counts_each_status() {
        let index = RunIndex::new(vec![
            run(17, 1, RunStatus::Finished),
            run(170, 2, RunStatus::Errored),
            run(2, 3, RunStatus::Errored),
        ]);
        let page = index.page(&ListQuery {
            text: Some("NAME 17".into()),
            statuses: vec![RunStatus::Errored],
            ..ListQuery::default()
        });
        assert_eq!((ids(&page), page.total), (vec!["run-00170".to_owned()], 1));
        assert_eq!(page.counts, [0, 1, 1, 0]);
    }

    #[test]
    fn a_run_that_changes_its_status_moves() {
        let mut index = RunIndex::new(vec![run(1, 1, RunStatus::Started)]);
        index.put(run(1, 1, RunStatus::Finished));
        let page = index.page(&ListQuery::default());
        assert_eq!((page.total, page.counts), (1, vec![0, 1, 0, 0]));
        assert!(PageToken::parse("x").is_err() && PageToken::parse("1.../x").is_err());
    }
}
