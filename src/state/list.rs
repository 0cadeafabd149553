//! The list: a page copied from the index, with what changes by itself only where it was asked for.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    io::Write as _,
};

use bytes::Bytes;
use serde::Serialize;

use super::{
    StateError, StateHandle,
    blocking::blocking,
    index::{Counts, Doc, Entry, ListQuery, Page},
    live::evidence,
};
use crate::{
    base::{Invalid, RunId, Timestamp},
    model::{
        Refusal, RunRecord, RunStatus,
        metrics::MetricValue,
        progress::Progress,
        run::Controller,
        view::{Member, StatsOf},
    },
};

/// Runs whose settings are read at once.
const SETTINGS_AT_ONCE: usize = 1000;
/// How often settings are read for one answer: runs may come meanwhile, and others ask for other settings.
const SETTING_TRIES: u32 = 3;

/// What the runs of a list carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// Members.
    pub members: Vec<Member>,
    /// Metrics whose last value is shown; `*` for all at hand.
    pub metrics: Vec<String>,
}

impl Default for Include {
    fn default() -> Self {
        Self { members: vec![Member::Workers], metrics: Vec::new() }
    }
}

impl Include {
    fn has(&self, member: Member) -> bool {
        self.members.contains(&member)
    }

    /// Whether the runs are shown as they lie ready.
    fn is_plain(&self) -> bool {
        self.members == [Member::Workers] && self.metrics.is_empty()
    }
}

/// Room for what follows the runs of a page.
const TAIL: usize = 512;

impl StateHandle {
    /// A page of the list, as JSON.
    ///
    /// # Errors
    /// When the store cannot be read, or the page token is of another order.
    pub async fn list(&self, query: &ListQuery, include: &Include) -> Result<Bytes, StateError> {
        self.reconcile_to_read().await?;
        let plain = |entry: &Entry, json: &mut Vec<u8>| {
            json.extend_from_slice(entry.doc.as_ref().map_or(&[], |doc| &doc.json));
            Ok(())
        };
        let mut tries = 0..SETTING_TRIES;
        let (entries, tail, mark) = loop {
            let (key, unknown) = {
                let index = self.shared.index.read();
                let unknown = query.sort.setting().map(|key| (key, index.without_setting(key)));
                match unknown.filter(|(_, runs)| !runs.is_empty()) {
                    Some(unknown) if tries.next().is_some() => unknown,
                    Some((_, unknown)) if unknown.len() > SETTINGS_AT_ONCE => {
                        return Err(StateError::Unavailable(
                            "runs are ordered by too many settings at once".into(),
                        ));
                    }
                    // Those that came this very moment stand behind the others.
                    Some(_) | None => {
                        let page = index.page(query, &self.shared.live)?;
                        let tail = self.tail(&page);
                        if include.is_plain() && page.entries.iter().all(|entry| entry.doc.is_some()) {
                            // Copied where they lie: to hold on to each of a hundred runs costs more than the copy.
                            return joined(&page.entries, &tail, plain);
                        }
                        let entries: Vec<Entry> = page.entries.into_iter().cloned().collect();
                        break (entries, tail, index.mark());
                    }
                }
            };
            self.read_setting(key, &unknown).await?;
        };
        let entries = self.with_documents(entries, mark).await?;
        if include.is_plain() {
            return joined(&entries, &tail, plain);
        }
        let extras = Extras::load(self, &entries, include).await?;
        joined(&entries, &tail, |entry, json| extras.write(entry, json))
    }

    /// Has what these runs have of a setting at hand, to order them by it.
    async fn read_setting(&self, key: &str, runs: &[RunId]) -> Result<(), StateError> {
        let mut all = Vec::with_capacity(runs.len());
        for runs in runs.chunks(SETTINGS_AT_ONCE) {
            let mut stored = self.shared.reader.settings(runs).await?;
            let (runs, path) = (runs.to_vec(), key.to_owned());
            // Of many runs it is much to parse.
            let values: Vec<_> = blocking(move || {
                let value = |id: RunId| {
                    let value = stored.remove(&id).and_then(|settings| settings.at(&path));
                    (id, value)
                };
                runs.into_iter().map(value).collect()
            })
            .await?;
            all.extend(values);
        }
        self.shared.index.write().learn_setting(key, all);
        Ok(())
    }

    /// Runs with their documents, from the store where they are not at hand. A run that is gone meanwhile is left out.
    async fn with_documents(&self, mut entries: Vec<Entry>, mark: u64) -> Result<Vec<Entry>, StateError> {
        let missing = entries.iter().filter(|entry| entry.doc.is_none());
        let missing: Vec<RunId> = missing.map(|entry| entry.id().clone()).collect();
        if missing.is_empty() {
            return Ok(entries);
        }
        let stored = self.shared.reader.documents(&missing).await?;
        let stored: HashMap<RunId, Doc> = stored.into_iter().map(|(id, doc)| (id, doc.into())).collect();
        let mut index = self.shared.index.write();
        index.keep(&stored, mark);
        for entry in entries.iter_mut().filter(|entry| entry.doc.is_none()) {
            let newest = index.get(entry.id()).and_then(|newest| newest.doc.clone());
            entry.doc = newest.or_else(|| stored.get(entry.id()).cloned());
        }
        entries.retain(|entry| entry.doc.is_some());
        Ok(entries)
    }

    /// What follows the runs of a page.
    fn tail(&self, page: &Page<'_>) -> String {
        let Page { entries: _, total, next, counts } = page;
        let mut json = String::with_capacity(TAIL);
        // Writing to a string cannot fail; a token has no character that JSON escapes.
        let _ = write!(json, "],\"total_size\":{total},\"next_page_token\":");
        let _ = match next {
            Some(token) => write!(json, "\"{token}\""),
            None => write!(json, "null"),
        };
        let _ = write!(json, ",\"counts\":{{");
        for (i, (status, n)) in RunStatus::ALL.iter().zip(counts).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = write!(json, "{comma}\"{status}\":{n}");
        }
        let _ = write!(json, "}},\"server_time_ms\":{}}}", self.now().as_ms());
        json
    }

    /// A page of the experiments, by name, after the one called `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn experiments(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Experiment>, StateError> {
        self.reconcile_to_read().await?;
        let found = self.shared.index.read().experiments(after, limit);
        let newest: Vec<RunId> =
            found.iter().filter_map(|e| e.newest.as_ref()).map(|(id, _)| id.clone()).collect();
        let mut names = self.shared.reader.names(&newest).await?;
        let experiment = |e: super::index::ExperimentRuns| Experiment {
            name: e.name.to_string(),
            num_runs: e.counts.iter().sum(),
            counts: by_status(&e.counts),
            newest_run_id: e.newest.as_ref().map(|(id, _)| id.clone()),
            newest_run_name: e.newest.as_ref().and_then(|(id, _)| names.remove(id)),
            newest_start_time_ms: e.newest.map(|(_, at)| at),
        };
        Ok(found.into_iter().map(experiment).collect())
    }
}

/// A page: runs as `write` writes them, and its tail.
fn joined<E: Borrow<Entry>>(
    entries: &[E],
    tail: &str,
    write: impl Fn(&Entry, &mut Vec<u8>) -> Result<(), StateError>,
) -> Result<Bytes, StateError> {
    const BEGIN: &[u8] = b"{\"train_runs\":[";
    let docs = entries.iter().filter_map(|entry| entry.borrow().doc.as_ref());
    let room = docs.map(|doc| doc.json.len() + 1).sum::<usize>();
    let mut json = Vec::with_capacity(BEGIN.len() + room + tail.len());
    json.extend_from_slice(BEGIN);
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            json.push(b',');
        }
        write(entry.borrow(), &mut json)?;
    }
    json.extend_from_slice(tail.as_bytes());
    Ok(json.into())
}

fn by_status(counts: &Counts) -> BTreeMap<RunStatus, usize> {
    RunStatus::ALL.iter().copied().zip(counts.iter().copied()).collect()
}

/// An experiment.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// How many runs it has, without those in the trash.
    pub num_runs: usize,
    /// How many of each status.
    #[schema(value_type = Object)]
    pub counts: BTreeMap<RunStatus, usize>,
    /// The run that started last.
    pub newest_run_id: Option<RunId>,
    /// What that one is called.
    pub newest_run_name: Option<String>,
    /// When it started.
    pub newest_start_time_ms: Option<Timestamp>,
}

/// What was asked for of the runs of a page besides their documents.
struct Extras<'a> {
    state: &'a StateHandle,
    include: &'a Include,
    controllers: HashMap<RunId, Controller>,
    progress: HashMap<RunId, Progress>,
    records: HashMap<RunId, RunRecord>,
    stats: HashMap<RunId, StatsOf>,
}

impl<'a> Extras<'a> {
    async fn load(
        state: &'a StateHandle,
        entries: &[Entry],
        include: &'a Include,
    ) -> Result<Self, StateError> {
        let ids: Vec<RunId> = entries.iter().map(|e| e.id().clone()).collect();
        let reader = &state.shared.reader;
        let (mut controllers, mut progress) = (HashMap::new(), HashMap::new());
        if include.has(Member::Evidence) {
            let ended: Vec<RunId> = entries.iter().filter(|e| !e.is_live()).map(|e| e.id().clone()).collect();
            controllers = reader.controllers(&ids).await?;
            progress = reader.progress(&ended).await?;
        }
        let wants = include.has(Member::Attempts) || include.has(Member::Stats);
        let records = if wants { state.records(&ids).await? } else { Vec::new() };
        let stats = if include.has(Member::Stats) { state.stats(&records).await? } else { HashMap::new() };
        let records = records.into_iter().map(|record| (record.run.id.clone(), record)).collect();
        Ok(Self { state, include, controllers, progress, records, stats })
    }

    /// A run with what was asked for.
    fn write(&self, entry: &Entry, json: &mut Vec<u8>) -> Result<(), StateError> {
        let shared = &self.state.shared;
        let id = entry.id();
        let Some(Doc { json: doc, workers_at }) = &entry.doc else { return Ok(()) };
        let (run, workers) = doc.split_at_checked(*workers_at).unwrap_or_default();
        json.extend_from_slice(run);
        let live = shared.live.get(id);
        let stored = self.progress.get(id);
        if self.include.has(Member::Evidence) {
            let progress = live.as_ref().map(|l| &l.progress).or(stored);
            member(json, "last_metrics", &progress.map(Progress::last_metrics).unwrap_or_default())?;
            let clock = shared.clock.as_ref();
            let evidence = self.controllers.get(id).map(|c| evidence(c, live.as_ref(), stored, clock));
            member(json, "evidence", &evidence)?;
        } else if !self.include.metrics.is_empty() {
            member(json, "last_metrics", &self.last_metrics(entry))?;
        }
        let nothing = StatsOf::new();
        let stats = self.stats.get(id).unwrap_or(&nothing);
        let record = self.records.get(id);
        if self.include.has(Member::Attempts) {
            member(json, "attempts", &record.map(|r| r.attempt_views(stats)).unwrap_or_default())?;
        }
        if self.include.has(Member::Stats) {
            let newest = record.and_then(|r| r.newest_attempt().map(|a| r.worker_views(a, stats)));
            member(json, "workers", &newest.unwrap_or_default())?;
            json.push(b'}');
        } else if self.include.has(Member::Workers) {
            json.extend_from_slice(workers);
        } else {
            json.push(b'}');
        }
        Ok(())
    }

    /// The last values that were asked for.
    fn last_metrics(&self, entry: &Entry) -> BTreeMap<String, MetricValue> {
        let shared = &self.state.shared;
        let index = shared.index.read();
        let all = self.include.metrics.iter().any(|key| key == "*");
        let keys = if all { index.keys(entry, &shared.live) } else { self.include.metrics.clone() };
        let value = |key: String| {
            let value = index.value(entry, &key, &shared.live)?;
            Some((key, MetricValue(value)))
        };
        keys.into_iter().filter_map(value).collect()
    }
}

/// Writes a member of an object that is not closed yet.
pub(super) fn member(json: &mut Vec<u8>, name: &str, value: &impl Serialize) -> Result<(), StateError> {
    // Writing to a vector cannot fail.
    let _ = write!(json, ",\"{name}\":");
    serde_json::to_writer(json, value).map_err(|e| StateError::Unavailable(e.to_string()))
}

impl From<Invalid> for StateError {
    fn from(invalid: Invalid) -> Self {
        Refusal::from(invalid).into()
    }
}
