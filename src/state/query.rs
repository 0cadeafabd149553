//! Queries: what is shown is what is stored, reconciled first.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    StateError, StateHandle,
    data_dir::DataDir,
    index::{Entry, ListQuery},
    live::evidence,
};
use crate::{
    base::{Invalid, RunId},
    model::{
        Event, Refusal, RunStatus,
        downsample::{Sample, min_max},
        metrics::{MetricSummary, MetricValue},
        progress::Progress,
        view::TrainRunDetail,
    },
    store::metrics::SeriesQuery,
};

/// Which series is asked for.
#[derive(Clone, Debug)]
pub struct SeriesRequest {
    /// Keys, at least one.
    pub keys: Vec<String>,
    /// One rank, or all.
    pub rank: Option<u32>,
    /// Which attempts.
    pub attempt: AttemptChoice,
    /// First step.
    pub from_step: i64,
    /// Last step.
    pub to_step: i64,
    /// Points of each series at the most.
    pub max_points: usize,
}

/// Which attempts a series shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptChoice {
    /// For each step the newest attempt that reached it.
    Merged,
    /// Each attempt as a series of its own.
    All,
    /// One attempt.
    One(u32),
}

/// One series, as columns.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Series {
    /// Key.
    pub key: String,
    /// `merged`, or the ordinal of the attempt.
    #[schema(value_type = Object)]
    pub attempt: serde_json::Value,
    /// World rank.
    pub rank: u32,
    /// How many points stand behind it.
    pub count: usize,
    /// Steps.
    pub step: Vec<i64>,
    /// Times.
    pub time_ms: Vec<i64>,
    /// Values.
    pub value: Vec<MetricValue>,
    /// Ordinal of the attempt that each point is of.
    pub attempt_at: Vec<u32>,
}

impl StateHandle {
    /// A page of the list, as JSON. With `evidence`, each run carries what is known of it right now.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn list(&self, query: &ListQuery, with_evidence: bool) -> Result<String, StateError> {
        self.reconcile_to_read().await?;
        let page = self.shared.index.read().page(query);
        let mut json =
            String::with_capacity(64 + page.entries.iter().map(|e| e.doc.len() + 1).sum::<usize>());
        json.push_str("{\"train_runs\":[");
        let extras = if with_evidence { self.extras(&page.entries).await? } else { Vec::new() };
        for (i, entry) in page.entries.iter().enumerate() {
            if i > 0 {
                json.push(',');
            }
            // Documents are made by serde_json, which writes UTF-8.
            let doc = std::str::from_utf8(&entry.doc).unwrap_or("null");
            match extras.get(i) {
                Some(extra) => {
                    json.push_str(doc.strip_suffix('}').unwrap_or(doc));
                    json.push_str(extra);
                }
                None => json.push_str(doc),
            }
        }
        let counts: BTreeMap<&str, usize> =
            RunStatus::ALL.iter().map(|s| s.as_str()).zip(page.counts.iter().copied()).collect();
        let next = page.next.map(|token| token.to_string());
        let tail = serde_json::json!({
            "total_size": page.total,
            "next_page_token": next,
            "counts": counts,
            "server_time_ms": self.now(),
        });
        // Writing to a string cannot fail.
        let _ = write!(json, "],{}", tail.to_string().trim_start_matches('{'));
        Ok(json)
    }

    /// For each run what follows its document: evidence and last metrics.
    async fn extras(&self, entries: &[Arc<Entry>]) -> Result<Vec<String>, StateError> {
        let ids: Vec<RunId> = entries.iter().map(|e| e.id().clone()).collect();
        let ended: Vec<RunId> = entries.iter().filter(|e| !e.is_live()).map(|e| e.id().clone()).collect();
        let controllers = self.shared.reader.controllers(&ids).await?;
        let stored = self.shared.reader.progress(&ended).await?;
        let nothing = Progress::default();
        Ok(ids
            .iter()
            .map(|id| {
                let live = self.shared.live.get(id);
                let progress =
                    live.as_ref().map(|l| &l.progress).or_else(|| stored.get(id)).unwrap_or(&nothing);
                let evidence = controllers
                    .get(id)
                    .map(|c| evidence(c, live.as_ref(), stored.get(id), self.shared.clock.as_ref()));
                let extra =
                    serde_json::json!({"evidence": evidence, "last_metrics": progress.last_metrics()});
                format!(",{}", extra.to_string().trim_start_matches('{'))
            })
            .collect())
    }

    /// One run in full, as JSON.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run(&self, id: &RunId) -> Result<String, StateError> {
        self.reconcile_to_read().await?;
        let record = self.shared.reader.record(id).await?.ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let live = self.shared.live.get(id);
        let stored = self.shared.reader.progress(std::slice::from_ref(id)).await?.remove(id);
        let nothing = Progress::default();
        let progress = live.as_ref().map(|l| &l.progress).or(stored.as_ref()).unwrap_or(&nothing);
        let detail = TrainRunDetail {
            run: record.view(),
            settings: &record.run.settings,
            datasets: &record.run.datasets,
            framework_versions: &record.run.framework_versions,
            notes: record.run.notes.as_deref(),
            epoch: record.controller.epoch,
            stop: record.run.stop.as_ref(),
            evidence: evidence(
                &record.controller,
                live.as_ref(),
                stored.as_ref(),
                self.shared.clock.as_ref(),
            ),
            last_metrics: progress.last_metrics(),
            attempts: record.attempt_views(),
            first_failure: record.run.first_failure.as_ref(),
            server_time_ms: self.now(),
        };
        serde_json::to_string(&detail).map_err(|e| StateError::Unavailable(e.to_string()))
    }

    /// A page of a run's trail after the event `after`, oldest first.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn events(&self, id: &RunId, after: i64, limit: u32) -> Result<Vec<Event>, StateError> {
        self.reconcile_to_read().await?;
        self.known(id)?;
        Ok(self.shared.reader.events(id, after, limit).await?)
    }

    /// What is known of each metric of a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn metrics(&self, id: &RunId) -> Result<Vec<MetricSummary>, StateError> {
        self.known(id)?;
        Ok(self.shared.reader.metric_summaries(id).await?)
    }

    /// Series of a run: range first, then sampling.
    ///
    /// # Errors
    /// When there is no such run, or no key is asked for.
    pub async fn series(&self, id: &RunId, request: &SeriesRequest) -> Result<Vec<Series>, StateError> {
        self.known(id)?;
        if request.keys.is_empty() {
            return Err(Refusal::from(Invalid::rule("key", "name at least one key, ?key=…")).into());
        }
        let mut out = Vec::new();
        for key in &request.keys {
            let query = SeriesQuery {
                run: id.clone(),
                key: key.clone(),
                rank: request.rank,
                attempt: match request.attempt {
                    AttemptChoice::One(ordinal) => Some(ordinal),
                    AttemptChoice::Merged | AttemptChoice::All => None,
                },
                from_step: request.from_step,
                to_step: request.to_step,
            };
            let mut groups: BTreeMap<(u32, Option<u32>), Vec<Sample>> = BTreeMap::new();
            for (rank, sample) in self.shared.reader.series(&query).await? {
                let attempt = (request.attempt != AttemptChoice::Merged).then_some(sample.attempt);
                let samples = groups.entry((rank, attempt)).or_default();
                // Of equal steps the newest attempt's comes first, and is the one that counts.
                if samples.last().is_none_or(|last| last.step != sample.step) {
                    samples.push(sample);
                }
            }
            out.extend(groups.into_iter().map(|((rank, attempt), samples)| {
                let thin = min_max(&samples, request.max_points);
                Series {
                    key: key.clone(),
                    attempt: attempt.map_or_else(|| "merged".into(), Into::into),
                    rank,
                    count: samples.len(),
                    step: thin.iter().map(|s| s.step).collect(),
                    time_ms: thin.iter().map(|s| s.time_ms).collect(),
                    value: thin.iter().map(|s| s.value).collect(),
                    attempt_at: thin.iter().map(|s| s.attempt).collect(),
                }
            }));
        }
        Ok(out)
    }

    /// Ordinals of attempts and the ranks of each, which is where logs may be.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn ranks(&self, id: &RunId) -> Result<Vec<(u32, Vec<u32>)>, StateError> {
        let record = self.shared.reader.record(id).await?.ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        Ok(record.attempts.iter().map(|a| (a.ordinal, (0..a.num_workers).collect())).collect())
    }

    /// Whether the run lives.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn is_live(&self, id: &RunId) -> Result<bool, StateError> {
        self.known(id).map(|entry| entry.is_live())
    }

    /// Where its files lie.
    #[must_use]
    pub fn data_dir(&self) -> &DataDir {
        &self.shared.data_dir
    }

    fn known(&self, id: &RunId) -> Result<Arc<Entry>, StateError> {
        let index = self.shared.index.read();
        index.get(id).cloned().ok_or_else(|| Refusal::RunNotFound(id.clone()).into())
    }
}
