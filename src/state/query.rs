//! Queries: what is shown is what is stored, reconciled first.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::{StateError, StateHandle, data_dir::DataDir, index::Entry, live::evidence, shown::ShownRun};
use crate::{
    base::{Invalid, RunId},
    model::{
        Event, Refusal,
        downsample::{Sample, min_max},
        metrics::{MetricSummary, MetricValue},
        progress::Progress,
        view::{Moving, Standing, StatsOf},
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
    /// One run in full, as JSON.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run(&self, id: &RunId) -> Result<Bytes, StateError> {
        self.reconcile_to_read().await?;
        let shared = &self.shared;
        let (known, commits) = shared.shown.get(id);
        let shown = match known {
            Some(shown) => shown,
            None => {
                let shown = Arc::new(self.read_run(id).await?);
                shared.shown.keep(id, &shown, commits);
                shown
            }
        };
        let ShownRun { json, controller, progress } = &*shown;
        let live = shared.live.get(id);
        let clock = shared.clock.as_ref();
        let moving = Moving {
            evidence: evidence(controller, live.as_ref(), progress.as_ref(), clock),
            last_metrics: live
                .as_ref()
                .map(|l| &l.progress)
                .or(progress.as_ref())
                .map(Progress::last_metrics)
                .unwrap_or_default(),
            server_time_ms: self.now(),
        };
        let mut out = Vec::with_capacity(json.len() + 1024);
        out.extend_from_slice(json.as_bytes());
        out.push(b',');
        let moving = serde_json::to_vec(&moving).map_err(|e| StateError::Unavailable(e.to_string()))?;
        out.extend_from_slice(moving.strip_prefix(b"{").unwrap_or(&moving));
        Ok(out.into())
    }

    async fn read_run(&self, id: &RunId) -> Result<ShownRun, StateError> {
        let reader = &self.shared.reader;
        let record = reader.record(id).await?.ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        let progress = reader.progress(std::slice::from_ref(id)).await?.remove(id);
        let stats = StatsOf::new();
        let detail = Standing {
            run: record.view(&stats),
            epoch: record.controller.epoch,
            stop: record.run.stop.as_ref(),
            attempts: record.attempt_views(&stats),
        };
        let mut json = serde_json::to_string(&detail).map_err(|e| StateError::Unavailable(e.to_string()))?;
        json.pop();
        Ok(ShownRun { json, controller: record.controller, progress })
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

    fn known(&self, id: &RunId) -> Result<Entry, StateError> {
        let index = self.shared.index.read();
        index.get(id).cloned().ok_or_else(|| Refusal::RunNotFound(id.clone()).into())
    }
}
